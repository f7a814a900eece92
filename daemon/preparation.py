"""From a stored model to the way it is loaded and the memory that takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from ingle.backends.base import EngineChoice, EngineKind, LoadSpec, Quantize
from ingle.models.errors import ModelNotFound, UnsupportedModel
from ingle.models.kv_type import KVType
from ingle.models.store import StoredModel
from ingle.models.task import ModelTask, Pooling

from .config import Config
from .kv_folder import kv_store_spec

if TYPE_CHECKING:
    from ingle.backends.own_engine import OwnEngine

    from .model_memory import ModelMemory

NO_DRAFT = "off"
_LARGE_GPU = 40 << 30
_LARGE_BATCH = 2048
"""Tokens of a step where they take hardly longer than reading all weights for them."""


class Preparation(msgspec.Struct, frozen=True):
    """How a model will be loaded; `size` is the estimate of all its bytes."""

    spec: LoadSpec
    size: int


class LoadOptions(msgspec.Struct, frozen=True):
    """What one load asks for; None leaves it to the settings.

    A `least_context` gets more where there is room, and so does whoever asks for none next.
    `draft` names the model that guesses for this one; "off" is none, whatever the catalog says.
    `pooling` is for a model that embeds.
    """

    context: int | None = None
    least_context: int | None = None
    engine: EngineChoice | None = None
    kv_type: KVType | None = None
    quantize: Quantize | None = None
    draft: str | None = None
    pooling: Pooling | None = None


class Preparer(Protocol):
    """Decides how a model is loaded; blocking, since it reads the file's header."""

    def __call__(self, model: StoredModel, options: LoadOptions, *, available: int) -> Preparation:
        """A context that nobody asked for fits into `available` bytes."""
        ...


class ModelPreparer:
    """The preparer for files and folders: what they say of themselves tells what they need."""

    def __init__(self, config: Config, resolve: Callable[[str], StoredModel]) -> None:
        """`resolve` finds draft models."""
        self._config = config
        self._resolve = resolve

    def __call__(self, model: StoredModel, options: LoadOptions, *, available: int) -> Preparation:
        """Raises `InvalidModel`, `UnsupportedModel`, and `ModelNotFound` for the draft model.

        Raises `LoadFailed` where the engine is not installed.
        """
        # Imported here: selecting a backend brings the process machinery with it.
        from ingle.backends.engine_choice import choose_engine
        from ingle.backends.own_engine import OwnEngine
        from ingle.backends.selection import describe, make_load_spec

        from .model_memory import ModelMemory

        config = self._config
        description = describe(model.path)
        own = OwnEngine.find()
        kv_type = options.kv_type or KVType(config.kv_type)
        pooling = options.pooling if model.task is ModelTask.EMBED else None
        wanted = options.engine or config.engine
        engine = choose_engine(
            description,
            wanted,
            own,
            kv_type=kv_type,
            gpu_layers=config.gpu_layers,
            pooling=pooling,
        )
        quantize = options.quantize or config.quantize
        if options.quantize == "nf4" and engine is not EngineKind.CUDA:
            raise UnsupportedModel(
                f"{model.name} is run by llama.cpp, which does not quantise weights on load.",
                hint="Choose the engine cuda, or a GGUF file that is quantised.",
            )
        memory = ModelMemory(
            engine,
            own,
            on_gpu=config.gpu_layers != 0,
            available=available,
            quantize=quantize,
        )
        context = options.context or config.context or memory.context(description, kv_type)
        context = max(context, options.least_context or 0)
        if config.max_context:
            context = min(context, config.max_context)
        spec = make_load_spec(
            description,
            engine=engine,
            context=context,
            slots=config.slots,
            threads=config.threads,
            gpu_layers=config.gpu_layers,
            kv_type=kv_type,
            flash_attention=config.flash_attention,
            mmap=config.mmap,
            mlock=config.mlock,
            chat_template=model.chat_template,
            speculation=config.speculation,
            compute_lease=config.paths.compute_lease,
            pooling=pooling,
            quantize=quantize,
        )
        spec = self._completed(spec, model, own, may_fall_back=wanted == "auto")
        alone = Preparation(spec, memory.bytes(description, spec, spec.batch))
        return self._with_best_draft(alone, model, options, memory, available)

    def _completed(
        self, spec: LoadSpec, model: StoredModel, own: OwnEngine, *, may_fall_back: bool
    ) -> LoadSpec:
        """Add where files go that a worker keeps, and what depends on the machine."""
        large = spec.engine is EngineKind.CUDA and own.gpu_memory >= _LARGE_GPU
        return msgspec.structs.replace(
            spec,
            # Memory beyond the KV cache does not count: it gives way (see `ModelManager._trim`).
            kv_store=kv_store_spec(self._config, model),
            kernel_cache=str(self._config.paths.kernels),
            may_fall_back=may_fall_back and model.path.is_file(),
            batch=_LARGE_BATCH if large else spec.batch,
        )

    def _with_best_draft(
        self,
        alone: Preparation,
        model: StoredModel,
        options: LoadOptions,
        memory: ModelMemory,
        available: int,
    ) -> Preparation:
        """With the draft model that was asked for, or the catalog's where both fit."""
        spec = alone.spec
        if spec.task is not ModelTask.GENERATE:
            return alone  # it writes nothing that could be guessed
        if options.draft is not None:
            if options.draft == NO_DRAFT:
                return alone
            return self._with_draft(alone, options.draft, memory)
        if model.draft is None or spec.speculation not in ("auto", "draft"):
            return alone
        try:
            both = self._with_draft(alone, model.draft, memory)
        except ModelNotFound:
            return alone  # it is an offer of the catalog, no need
        return both if both.size <= available else alone

    def _with_draft(
        self, prepared: Preparation, reference: str, memory: ModelMemory
    ) -> Preparation:
        """Add a draft model, whose memory counts too."""
        from ingle.backends.selection import describe
        from ingle.models.fit import DRAFT_BATCH

        spec, draft = prepared.spec, self._resolve(reference)
        size = memory.bytes(describe(draft.path), spec, min(spec.batch, DRAFT_BATCH))
        speculation = spec.speculation if spec.speculation in ("auto", "draft") else "draft"
        spec = msgspec.structs.replace(spec, draft_path=str(draft.path), speculation=speculation)
        return Preparation(spec, prepared.size + size)
