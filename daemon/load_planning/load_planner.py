"""Plans how a stored model is loaded and estimates its memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from ingle.backends.base.load_spec import LoadSpec, Quantize
from ingle.backends.registry.engines import get_engine
from ingle.models.errors import ModelNotFound, UnsupportedModel
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.kv_type import KVType
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask, Pooling

from ..settings.config import Config
from .kv_folder import kv_store_spec

if TYPE_CHECKING:
    from ingle.backends.advice.device_rates import DeviceRates
    from ingle.backends.selection.engine_facts import EngineFacts
    from ingle.backends.selection.model_placement import MemoryBudget, Placement, PlacementRequest
    from ingle.models.catalog import CatalogEntry
    from ingle.models.gguf.gguf_header import GGUFHeader
    from ingle.models.safetensors.model_folder import ModelFolder

    from ..client.engine_types import EngineOffer

NO_DRAFT = "off"
_LARGE_GPU = 40 << 30
_BATCH = 512
_FILLED = 1000
"""Tokens in the context of a predicted answer."""
_ASSUMED_BANDWIDTH = 25e9
"""Bytes per second of host memory that was not measured: less than two channels of DDR4 have."""
_LARGE_BATCH = 2048
"""Step size for devices that compute so many tokens in hardly more time than reading the weights.
"""


class LoadPlan(msgspec.Struct, frozen=True):
    """How a model will be loaded, and the estimated memory.

    `reason` is one sentence for display: why this engine, device and context. `draft` is the name
    of the draft model, and `draft_needs` its share of the memory. `reclaimable` bytes of the file
    stay in memory beside that, until they are needed otherwise.
    """

    spec: LoadSpec
    needs: MemoryNeeds
    reason: str = ""
    draft: str = ""
    draft_needs: MemoryNeeds = MemoryNeeds()
    reclaimable: int = 0


class LoadOptions(msgspec.Struct, frozen=True):
    """The options of one load; None leaves a choice to the settings.

    With `least_context` the context may be larger if memory allows, as without any. `draft` names
    the draft model; "off" means none, whatever the catalog suggests. `pooling` is for embedding
    models.
    """

    context: int | None = None
    least_context: int | None = None
    engine: str | None = None
    kv_type: KVType | None = None
    quantize: Quantize | None = None
    draft: str | None = None
    pooling: Pooling | None = None


class Preparer(Protocol):
    """Plans how a model is loaded; blocking, since it reads the file's header."""

    def __call__(
        self, model: StoredModel, options: LoadOptions, *, available: MemoryNeeds
    ) -> LoadPlan:
        """Without a requested context, one that fits into `available` is chosen."""
        ...


class OfferedEngine(NamedTuple):
    """An engine that could be installed, and how models would be loaded then."""

    name: str
    title: str
    planner: ModelLoadPlanner

    def sentence(self, reason: str) -> str:
        """Return a placement's reason with the condition that the engine is installed."""
        return (
            f"With {self.title} (`ingle engine install {self.name}`): {reason[0].lower()}"
            f"{reason[1:]}"
        )


class ModelLoadPlanner:
    """Plans the load of GGUF files and safetensors folders from their metadata."""

    def __init__(
        self,
        config: Config,
        resolve: Callable[[str], StoredModel],
        find_facts: Callable[[], EngineFacts] | None = None,
        find_draft: Callable[[StoredModel], StoredModel | None] = lambda model: None,
        find_offer: Callable[[], EngineOffer | None] = lambda: None,
    ) -> None:
        """`resolve` finds draft models by name, `find_draft` finds one for a model.

        `find_facts` describes the machine's engines, `find_offer` the one that it would profit
        from; both are called again if they change.
        """
        self._find_offer = find_offer
        self._find_draft = find_draft
        self._config = config
        self._resolve = resolve
        self._find_facts = find_facts

    @cached_property
    def facts(self) -> EngineFacts:
        """Return what engines this machine can run; blocking on first use."""
        if self._find_facts is not None:
            return self._find_facts()
        from ingle.backends.selection.engine_facts import EngineFacts

        from ..engines.engine_paths import engine_import_path

        return EngineFacts.find(
            self._config.paths.machine_facts, engine_import_path(self._config.paths)
        )

    @property
    def rates(self) -> tuple[DeviceRates | None, DeviceRates | None]:
        """Return the rates of processor and GPU that speeds are predicted from, as far as known."""
        from ingle.backends.advice.device_rates import cpu_rates, gpu_rates

        cpu, gpu = self.facts.cpu, self.facts.gpu
        if cpu is not None and not cpu.bandwidth:
            cpu = msgspec.structs.replace(cpu, bandwidth=_ASSUMED_BANDWIDTH)
        return (
            None if cpu is None else cpu_rates(cpu),
            None if gpu is None else gpu_rates(gpu, self.facts.cpu and self.facts.cpu.bandwidth),
        )

    @cached_property
    def offered(self) -> OfferedEngine | None:
        """Return how models would be loaded with the engine that is offered; None without one.

        Blocking on first use.
        """
        from ingle.backends.packages.engine_packages import all_engine_packages

        offer = self._find_offer()
        if offer is None:
            return None
        packages = all_engine_packages()[offer.name]
        facts = self.facts.after_installing(packages)
        planner = ModelLoadPlanner(self._config, self._resolve, lambda: facts)
        return OfferedEngine(packages.name, packages.title, planner)

    def forget_facts(self) -> None:
        """Find the engines anew at the next call: one was installed, removed or declined."""
        self.__dict__.pop("facts", None)
        self.__dict__.pop("offered", None)

    def __call__(
        self, model: StoredModel, options: LoadOptions, *, available: MemoryNeeds
    ) -> LoadPlan:
        """Raises `InvalidModel`, `UnsupportedModel`, and `ModelNotFound` for the draft model.

        Raises `LoadFailed` if the engine is not installed.
        """
        # Imported here: selecting an engine imports the process machinery.
        from ingle.backends.selection.load_spec_builder import complete_spec, describe

        config = self._config
        description = describe(model.path)
        pooling = options.pooling if model.task is ModelTask.EMBED else None
        selection = self.select(description, options, available=available, pooling=pooling)
        if options.quantize == "nf4" and not get_engine(selection.engine).converts_weights:
            title = get_engine(selection.engine).title
            raise UnsupportedModel(
                f"{model.name} is run by {title}, which does not quantise weights on load.",
                hint="Choose the engine cuda, or a GGUF file that is quantised.",
            )
        spec = LoadSpec(
            engine=selection.engine,
            path=str(description.path),
            context=selection.context,
            slots=config.slots,
            batch=selection.batch,
            threads=config.threads,
            gpu_layers=selection.gpu_layers,
            cpu_experts=selection.cpu_experts,
            quantize=options.quantize or config.quantize,
            kv_type=options.kv_type or KVType(config.kv_type),
            flash_attention=config.flash_attention,
            mmap=config.mmap,
            mlock=config.mlock,
            confine=config.confine,
            chat_template=model.chat_template,
            speculation=config.speculation,
            compute_lease=str(config.paths.compute_lease),
            # Memory beyond the KV cache does not count: it can be freed (see `MemoryAllocator`).
            kv_store=kv_store_spec(config, model),
            kernel_cache=str(config.paths.kernels),
            may_fall_back=(options.engine or config.engine) == "auto" and model.path.is_file(),
            pooling=pooling,
        )
        spec = complete_spec(spec, description)
        stale = selection.estimate.host.reclaimable
        alone = LoadPlan(spec, selection.needs, selection.reason, reclaimable=stale)
        if (draft := self._draft_of(model, spec, options, selection.device)) is None:
            return alone
        both = self._with_draft(alone, draft, available)
        requested = options.draft is not None
        return both if requested or both.needs.fits_in(available) else alone

    def select(
        self,
        description: GGUFHeader | ModelFolder,
        options: LoadOptions,
        *,
        available: MemoryNeeds,
        pooling: Pooling | None = None,
    ) -> Placement:
        """Return where a model would run, installed or not; raises as a call does."""
        from ingle.backends.registry.model_costs import ModelCosts
        from ingle.backends.selection.model_placement import select

        wanted = self._request(description, options, pooling)
        return select(ModelCosts.of(description, pooling), self.room(available), wanted)

    def select_entry(
        self, entry: CatalogEntry, *, available: MemoryNeeds, context: int | None = None
    ) -> tuple[Placement, float | None]:
        """Return where a catalog model would run, by the shape recorded there, and how fast.

        The speed is in tokens per second of an answer, None if it cannot be predicted.
        """
        from ingle.backends.advice.speed_prediction import predict_speed
        from ingle.backends.registry.model_costs import ModelCosts
        from ingle.backends.selection.engine_choice import choose_for_types
        from ingle.backends.selection.model_placement import PlacementRequest, select
        from ingle.models.families.family_registry import FAMILIES

        recorded, config, own = entry.shape, self._config, self.facts.own
        assert recorded is not None
        known = recorded.architecture in FAMILIES
        engine = choose_for_types(
            recorded.architecture,
            recorded.matrices,
            config.engine,
            own,
            mixture=recorded.experts_used > 0,
        )
        costs = ModelCosts(
            shape=recorded.shape(
                context=entry.context, parameters=entry.parameters, task=entry.task
            ),
            config=recorded.config(context=entry.context) if known else None,
            stored=entry.size,
            parameters=entry.parameters,
            context=entry.context,
        )
        wanted = PlacementRequest(
            engine=engine,
            context=context or config.context or None,
            max_context=config.max_context,
            gpu_layers=config.gpu_layers,
            slots=config.slots,
            kv_type=KVType(config.kv_type),
            flash_attention=config.flash_attention != "off",
        )
        found = select(costs, self.room(available), wanted)
        speed = predict_speed(
            costs,
            found,
            *self.rates,
            kv_type=wanted.kv_type,
            filled=min(_FILLED, found.context),
            repacked=self.facts.repacked,
        )
        return found, None if speed is None else speed.decode

    def _request(
        self, description: GGUFHeader | ModelFolder, options: LoadOptions, pooling: Pooling | None
    ) -> PlacementRequest:
        from ingle.backends.registry.engine_descriptor import LoadQuery
        from ingle.backends.selection.engine_choice import choose_engine, why_not_preferred
        from ingle.backends.selection.model_placement import PlacementRequest

        config, own = self._config, self.facts.own
        kv_type = options.kv_type or KVType(config.kv_type)
        query = LoadQuery(description, kv_type, config.gpu_layers, pooling)
        choice = options.engine or config.engine
        return PlacementRequest(
            engine=choose_engine(query, choice, own),
            must=choice != "auto",
            why_not_preferred=why_not_preferred(query, own) if choice == "auto" else "",
            context=options.context or config.context or None,
            least_context=options.least_context or 0,
            max_context=config.max_context,
            may_shrink=config.shrink_context,
            gpu_layers=config.gpu_layers,
            slots=config.slots,
            gpu_batch=_LARGE_BATCH if own.gpu_memory >= _LARGE_GPU else _BATCH,
            kv_type=kv_type,
            flash_attention=config.flash_attention != "off",
            quantize=options.quantize or config.quantize,
        )

    def room(self, available: MemoryNeeds) -> MemoryBudget:
        """Return the memory budget of a model on this machine."""
        from ingle.backends.selection.model_placement import MemoryBudget

        facts = self.facts
        gpu = available.gpu if facts.knows_free_memory else None
        if facts.unified:
            gpu = min(available.host, facts.gpu_total or available.host)
        return MemoryBudget(
            host=available.host,
            gpu=gpu if facts.gpu_name else 0,
            gpu_name=facts.gpu_name,
            llama_offloads=facts.llama_offloads,
            unified=facts.unified,
            repacked=facts.repacked,
        )

    def _draft_of(
        self, model: StoredModel, spec: LoadSpec, options: LoadOptions, device: str
    ) -> StoredModel | None:
        """Return the requested draft model, or the catalog's or a found one where it can pay."""
        if spec.task is not ModelTask.GENERATE:
            return None  # it generates nothing to draft
        if options.draft is not None:
            return None if options.draft == NO_DRAFT else self._resolve(options.draft)
        # A CPU verifies tokens in about the time that it takes to decode them.
        pays = spec.speculation == "auto" and device == "gpu"
        if not pays and spec.speculation != "draft":
            return None
        if model.draft is not None:
            with suppress(ModelNotFound):  # the catalog's draft model need not be installed
                return self._resolve(model.draft)
        return self._find_draft(model)

    def _with_draft(
        self, prepared: LoadPlan, draft: StoredModel, available: MemoryNeeds
    ) -> LoadPlan:
        """Add a draft model and its memory."""
        from ingle.backends.registry.model_costs import ModelCosts
        from ingle.backends.selection.load_spec_builder import describe
        from ingle.backends.selection.model_placement import draft_needs

        spec, costs = prepared.spec, ModelCosts.of(describe(draft.path))
        needs = draft_needs(costs, spec, self.room(available))
        speculation = spec.speculation if spec.speculation in ("auto", "draft") else "draft"
        spec = msgspec.structs.replace(spec, draft_path=str(draft.path), speculation=speculation)
        return msgspec.structs.replace(
            prepared,
            spec=spec,
            needs=prepared.needs + needs,
            draft=draft.name,
            draft_needs=needs,
        )
