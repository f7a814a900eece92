"""Places models: engine, device, KV type and context, by the memory available."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from ingle.models.errors import UnsupportedModel
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.kv_type import KVType
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask, Pooling
from ingle.models.vision.picture_encoders import encoder_bytes, is_known_encoder

from ..settings.config import Config
from .load_options import LoadOptions

if TYPE_CHECKING:
    from ingle.backends.advice.device_rates import DeviceRates
    from ingle.backends.base.load_spec import LoadSpec
    from ingle.backends.registry.model_costs import ModelCosts
    from ingle.backends.selection.engine_facts import EngineFacts
    from ingle.backends.selection.model_placement import MemoryBudget, Placement, PlacementRequest
    from ingle.models.catalog import CatalogEntry
    from ingle.models.gguf.gguf_header import GGUFHeader
    from ingle.models.safetensors.model_folder import ModelFolder

_LARGE_GPU = 40 << 30
_BATCH = 512
_FILLED = 1000
"""Tokens in the context of a predicted answer."""
_ASSUMED_BANDWIDTH = 25e9
"""Bytes per second of host memory that was not measured: less than two channels of DDR4 have."""
_LARGE_BATCH = 2048
"""Step size for devices that compute so many tokens in hardly more time than reading the weights.
"""


class ModelPlacer:
    """Decides where models would run, from the settings and the facts of this machine."""

    def __init__(self, config: Config, find_facts: Callable[[], EngineFacts] | None = None) -> None:
        """`find_facts` describes the machine's engines; it is called again if they change."""
        self._config = config
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

    def select(
        self,
        description: GGUFHeader | ModelFolder,
        options: LoadOptions,
        *,
        available: MemoryNeeds,
        pooling: Pooling | None = None,
    ) -> Placement:
        """Return where a model would run, installed or not; raises as a call does."""
        return self._selector(description, options, available, pooling)(options.context)

    def beside_projector(
        self, model: StoredModel, options: LoadOptions, available: MemoryNeeds
    ) -> tuple[LoadOptions, MemoryNeeds]:
        """Return the options and the memory of a model itself, without its projector's.

        A projector is computed where layers are, by llama.cpp if that can use the GPU. Where only
        ingle's own engine can, and does not know the projector, the model is fast rather than
        seeing. A model that is divided among devices sees nothing.
        """
        chosen, facts = options.engine or self._config.engine, self.facts
        fast = chosen == "auto" and facts.uses_gpu and not facts.llama_offloads
        is_own = model.path.is_dir() or fast or chosen == "cuda"
        size = encoder_bytes(model.projector)
        ranks = options.tensor_parallel or (self._config.tensor_parallel if is_own else 1)
        if not size or ranks > 1 or (is_own and not is_known_encoder(model.projector)):
            return options, available
        on_gpu = available.gpu > 0 and (facts.uses_gpu if is_own else facts.llama_offloads)
        taken = MemoryNeeds(size, size if on_gpu else 0)
        if not is_own:
            options = msgspec.structs.replace(options, engine="llama.cpp")
        return options, available - taken

    def most_context(self, trained: int) -> int:
        """Return the most tokens that a model with this trained context can get."""
        return self._config.bounded_context(trained) or trained

    def longest(
        self,
        description: GGUFHeader | ModelFolder,
        options: LoadOptions,
        available: MemoryNeeds,
        spec: LoadSpec,
    ) -> int:
        """Return the longest context that the model can have, at least that of `spec`."""
        from ingle.models.safetensors.model_folder import ModelFolder

        from .context_choice import longest_context

        trained = description.config if isinstance(description, ModelFolder) else description
        most = self.most_context(trained.context)
        if spec.task is not ModelTask.GENERATE or spec.context >= most:
            return spec.context
        options = msgspec.structs.replace(options, least_context=None)
        select = self._selector(description, options, available, None)
        return max(spec.context, longest_context(most, select, available))

    def _selector(
        self,
        description: GGUFHeader | ModelFolder,
        options: LoadOptions,
        available: MemoryNeeds,
        pooling: Pooling | None,
    ) -> Callable[[int | None], Placement]:
        """Return a function that places the model with a context in tokens; None: by default."""
        from ingle.backends.registry.model_costs import ModelCosts
        from ingle.backends.selection.model_placement import select

        costs, budget = ModelCosts.of(description, pooling), self.room(available)

        def place(context: int | None) -> Placement:
            def with_type(kv_type: KVType) -> Placement:
                given = msgspec.structs.replace(options, context=context, kv_type=kv_type)
                wanted = self._request(description, given, pooling)
                found = select(costs, budget, wanted)
                if wanted.tensor_parallel == 1 or _fits(found, wanted, available):
                    return found
                filled = self._filling_gpus(description, wanted, available)
                better = found if filled is None else select(costs, budget, filled)
                return better if _fits(better, wanted, available) else found

            return self._with_kv_type(with_type, options.kv_type, costs, available)

        return place

    def _with_kv_type(
        self,
        select: Callable[[KVType], Placement],
        wanted: KVType | None,
        costs: ModelCosts,
        available: MemoryNeeds,
    ) -> Placement:
        from .context_choice import select_kv_type

        config = self._config
        if wanted is None and config.kv_type != "auto":
            wanted = KVType(config.kv_type)
        shape = costs.shape
        # Of compressed attention and of texts to embed, only floats are kept.
        floats = shape is not None and not (shape.value_elements and shape.task == "generate")
        if wanted is None and (floats or config.flash_attention == "off"):
            wanted = KVType.F16
        if wanted is not None:
            return select(wanted)
        return select_kv_type(select, self.most_context(costs.context), available)

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
            flash_attention=config.flash_attention != "off",
        )
        found = self._with_kv_type(
            lambda kv_type: select(
                costs, self.room(available), dataclasses.replace(wanted, kv_type=kv_type)
            ),
            None,
            costs,
            available,
        )
        speed = predict_speed(
            costs,
            found,
            *self.rates,
            kv_type=found.kv_type,
            filled=min(_FILLED, found.context),
            repacked=self.facts.repacked,
        )
        return found, None if speed is None else speed.decode

    def _request(
        self, description: GGUFHeader | ModelFolder, options: LoadOptions, pooling: Pooling | None
    ) -> PlacementRequest:
        from ingle.backends.registry.engine_descriptor import LoadQuery
        from ingle.backends.registry.engines import get_engine
        from ingle.backends.selection.engine_choice import choose_engine, why_not_preferred
        from ingle.backends.selection.model_placement import PlacementRequest

        config, own = self._config, self.facts.own
        kv_type = options.kv_type or KVType.F16
        ranks = options.tensor_parallel or config.tensor_parallel
        query = LoadQuery(description, kv_type, config.gpu_layers, pooling, ranks)
        choice = options.engine or config.engine
        engine = choose_engine(query, choice, own)
        count, can_fall_back = (
            len(own.gpu_memories),
            choice == "auto" and query.file_format == "gguf",
        )
        if 0 < count < ranks and get_engine(engine).divides_models and not can_fall_back:
            raise UnsupportedModel(
                f"The model is to be divided among {ranks} GPUs, and ingle sees {count}.",
                hint="Load it with a smaller tensor_parallel.",
            )
        return PlacementRequest(
            engine=engine,
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
            tensor_parallel=ranks,
            stages=get_engine(engine).stages(query, config.tensor_split, own),
        )

    def _filling_gpus(
        self,
        description: GGUFHeader | ModelFolder,
        wanted: PlacementRequest,
        available: MemoryNeeds,
    ) -> PlacementRequest | None:
        """Return the request with layers for each GPU by its free memory; None if it cannot be."""
        from ingle.backends.registry.engine_descriptor import LoadQuery
        from ingle.backends.registry.engines import get_engine

        count = wanted.tensor_parallel
        if self._config.tensor_split or len(available.gpus) < count:
            return None
        query = LoadQuery(description, wanted.kv_type, wanted.gpu_layers, None, count)
        free = [max(1, each) for each in available.gpus[:count]]
        try:
            stages = get_engine(wanted.engine).stages(query, free, self.facts.own)
        except UnsupportedModel:
            return None
        return dataclasses.replace(wanted, stages=stages)

    def room(self, available: MemoryNeeds) -> MemoryBudget:
        """Return the memory budget of a model on this machine."""
        from ingle.backends.selection.model_placement import MemoryBudget
        from ingle.kernels.formats.weight_format import OLDEST_FP8_GPU

        facts = self.facts
        gpu = available.gpu if facts.knows_free_memory else None
        if facts.unified:
            gpu = min(available.host, facts.gpu_total or available.host)
        return MemoryBudget(
            host=available.host,
            gpu=gpu if facts.gpu_name else 0,
            other_gpus=available.other_gpus,
            gpu_name=facts.gpu_name,
            llama_offloads=facts.llama_offloads,
            unified=facts.unified,
            repacked=facts.repacked,
            has_fp8=facts.own.capability >= OLDEST_FP8_GPU,
        )


def _fits(found: Placement, wanted: PlacementRequest, available: MemoryNeeds) -> bool:
    """Whether the engine that was asked for has the memory that it needs, on GPUs."""
    is_there = found.engine == wanted.engine and found.device == "gpu"
    return is_there and found.needs.fits_in(available)
