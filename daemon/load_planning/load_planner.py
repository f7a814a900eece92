"""Plans how a stored model is loaded and estimates its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from ingle.backends.base.errors import WrongTask
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.registry.engines import get_engine
from ingle.models.adapters.adapter_folder import AdapterFolder
from ingle.models.errors import ModelNotFound, UnsupportedModel
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.stored_model import StoredModel, UnusableModel
from ingle.models.model_task import ModelTask

from ..settings.config import Config
from .kv_folder import kv_store_spec
from .load_options import NO_DRAFT, LoadOptions
from .model_placer import ModelPlacer

if TYPE_CHECKING:
    from ingle.backends.registry.engine_descriptor import EngineDescriptor
    from ingle.backends.registry.model_costs import ModelCosts
    from ingle.backends.selection.engine_facts import EngineFacts

    from ..client.engine_types import EngineOffer


FindHeads = Callable[[StoredModel], Iterable[UnusableModel]]
"""Finds folders with heads that may have been trained for a model."""


class LoadPlan(msgspec.Struct, frozen=True):
    """How a model will be loaded, and the estimated memory.

    `reason` is one sentence for display: why this engine, device and context. `draft` is the name
    of the draft model, and `draft_needs` its share of the memory. `reclaimable` bytes of the file
    stay in memory beside that, until they are needed otherwise. With `longest_context` tokens
    (0: unknown) it would fit, too.
    """

    spec: LoadSpec
    needs: MemoryNeeds
    reason: str = ""
    draft: str = ""
    draft_needs: MemoryNeeds = MemoryNeeds()
    reclaimable: int = 0
    longest_context: int = 0


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


class ModelLoadPlanner(ModelPlacer):
    """Plans the load of GGUF files and safetensors folders from their metadata."""

    def __init__(
        self,
        config: Config,
        resolve: Callable[[str], StoredModel],
        find_facts: Callable[[], EngineFacts] | None = None,
        find_draft: Callable[[StoredModel], StoredModel | None] = lambda model: None,
        find_offer: Callable[[], EngineOffer | None] = lambda: None,
        find_heads: FindHeads = lambda model: (),
    ) -> None:
        """`resolve` finds draft models by name, `find_draft` and `find_heads` those for a model.

        `find_facts` describes the machine's engines, `find_offer` the one that it would profit
        from; both are called again if they change.
        """
        super().__init__(config, find_facts)
        self._find_offer = find_offer
        self._find_draft = find_draft
        self._find_heads = find_heads
        self._resolve = resolve

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
        from ingle.backends.registry.model_costs import ModelCosts
        from ingle.backends.selection.load_spec_builder import complete_spec, describe

        config = self._config
        description = describe(_loadable(model).path)
        pooling = options.pooling if model.task is ModelTask.EMBED else None
        options, room = self.beside_projector(model, options, available)
        selection = self.select(description, options, available=room, pooling=pooling)
        _check_engine(model, options, get_engine(selection.engine))
        spec = LoadSpec(
            engine=selection.engine,
            path=str(description.path),
            projector_path=str(model.projector) if room != available else None,
            context=selection.context,
            slots=config.slots,
            batch=selection.batch,
            threads=config.threads,
            gpu_layers=selection.gpu_layers,
            cpu_experts=selection.cpu_experts,
            quantize=options.quantize or config.quantize,
            tensor_parallel=options.tensor_parallel or config.tensor_parallel,
            stages=selection.stages,
            tensor_split=config.tensor_split,
            main_gpu=config.main_gpu,
            kv_type=selection.kv_type,
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
            adapters=str(config.paths.adapters),
            may_fall_back=(options.engine or config.engine) == "auto" and model.path.is_file(),
            pooling=pooling,
        )
        spec = complete_spec(spec, description)
        alone = LoadPlan(
            spec,
            selection.needs + self._beside(model, selection.device, available - room, spec),
            selection.reason,
            reclaimable=selection.estimate.host.reclaimable,
            longest_context=self.longest(description, options, room, spec),
        )
        costs = ModelCosts.of(description)
        return self._with_drafts(alone, model, costs, options, selection.device, available)

    def _with_drafts(
        self,
        alone: LoadPlan,
        model: StoredModel,
        costs: ModelCosts,
        options: LoadOptions,
        device: str,
        available: MemoryNeeds,
    ) -> LoadPlan:
        """Add what drafts, a head or else a smaller model, if it fits or the load names it."""
        both = self._with_head(alone, model, costs, options, device, available)
        if both is None and (draft := self._draft_of(model, alone.spec, options, device)):
            both = self._with_draft(alone, draft, available)
        needed = options.draft is not None or (both is not None and both.needs.fits_in(available))
        return both if both is not None and needed else alone

    def _beside(
        self, model: StoredModel, device: str, projector: MemoryNeeds, spec: LoadSpec
    ) -> MemoryNeeds:
        """What its projector and all its adapters take beside a model on this device."""
        size = AdapterFolder(self._config.paths.adapters).bytes_of(model.name)
        adapters = MemoryNeeds(size)
        if device == "gpu":
            adapters = MemoryNeeds(0, size, (size,) * (spec.tensor_parallel - 1))
        return adapters + _projector_needs(projector, spec)

    def _draft_of(
        self, model: StoredModel, spec: LoadSpec, options: LoadOptions, device: str
    ) -> StoredModel | None:
        """Return the requested draft model, or the catalog's or a found one where it can pay."""
        if spec.task is not ModelTask.GENERATE:
            return None  # it generates nothing to draft
        if options.draft is not None:
            return None if options.draft == NO_DRAFT else self._resolve(options.draft)
        if not _may_pay(spec, device):
            return None
        if model.draft is not None:
            with suppress(ModelNotFound):  # the catalog's draft model need not be installed
                return self._resolve(model.draft)
        return self._find_draft(model)

    def _with_head(
        self,
        prepared: LoadPlan,
        model: StoredModel,
        costs: ModelCosts,
        options: LoadOptions,
        device: str,
        available: MemoryNeeds,
    ) -> LoadPlan | None:
        """Add the head that is to draft and its memory; None without one."""
        from ingle.backends.selection.model_placement import head_needs

        from .head_choice import choose_head

        spec = prepared.spec
        if spec.task is not ModelTask.GENERATE or options.draft == NO_DRAFT:
            return None
        if options.draft is None and not _may_pay(spec, device):
            return None
        head = choose_head(model, costs, spec, options.draft, self._find_heads, self._resolve)
        if head is None:
            return None
        needs = head_needs(costs, head.costs, spec, self.room(available))
        return msgspec.structs.replace(
            prepared,
            spec=_drafting(spec, head.path),
            needs=prepared.needs + needs,
            draft=head.name,
            draft_needs=needs,
        )

    def _with_draft(
        self, prepared: LoadPlan, draft: StoredModel, available: MemoryNeeds
    ) -> LoadPlan:
        """Add a draft model and its memory."""
        from ingle.backends.registry.model_costs import ModelCosts
        from ingle.backends.selection.load_spec_builder import describe
        from ingle.backends.selection.model_placement import draft_needs

        spec, costs = prepared.spec, ModelCosts.of(describe(draft.path))
        needs = draft_needs(costs, spec, self.room(available))
        return msgspec.structs.replace(
            prepared,
            spec=_drafting(spec, draft.path),
            needs=prepared.needs + needs,
            draft=draft.name,
            draft_needs=needs,
        )


def _check_engine(model: StoredModel, options: LoadOptions, engine: EngineDescriptor) -> None:
    """Raise `UnsupportedModel` for options of the load that the engine cannot meet."""
    if options.quantize == "nf4" and not engine.converts_weights:
        raise UnsupportedModel(
            f"{model.name} is run by {engine.title}, which does not quantise weights on load.",
            hint="Choose the engine cuda, or a GGUF file that is quantised.",
        )
    if (options.tensor_parallel or 1) > 1 and not engine.divides_models:
        raise UnsupportedModel(
            f"{model.name} is run by {engine.title}, which has no tensor_parallel.",
            hint="Choose the engine cuda; llama.cpp uses several GPUs by itself: see tensor_split.",
        )


def _loadable(model: StoredModel) -> StoredModel:
    """Return the model; raises `WrongTask` for one that an engine of its own runs."""
    if model.task is ModelTask.TRANSCRIBE:
        raise WrongTask(model.task, ModelTask.GENERATE, name=model.name)
    return model


def _may_pay(spec: LoadSpec, device: str) -> bool:
    """A CPU verifies tokens in about the time that it takes to decode them."""
    return spec.speculation == "draft" or (spec.speculation == "auto" and device == "gpu")


def _drafting(spec: LoadSpec, draft: Path) -> LoadSpec:
    """Return the specification with what is at `draft` to draft."""
    speculation = spec.speculation if spec.speculation in ("auto", "draft") else "draft"
    return msgspec.structs.replace(spec, draft_path=str(draft), speculation=speculation)


def _projector_needs(reserved: MemoryNeeds, spec: LoadSpec) -> MemoryNeeds:
    """Return what of the memory that was reserved for a projector it takes: one kind of it."""
    if reserved.gpu > 0 and spec.gpu_layers != 0:
        return MemoryNeeds(gpu=reserved.gpu)
    return MemoryNeeds(reserved.host)
