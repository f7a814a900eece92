"""From a stored model to the way it is loaded and the memory that takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from ingle.backends.base import LoadSpec
from ingle.models.errors import ModelNotFound, UnsupportedModel
from ingle.models.kv_type import KVType
from ingle.models.store import StoredModel
from ingle.models.task import ModelTask, Pooling

from .config import Config
from .kv_folder import kv_store_spec

if TYPE_CHECKING:
    from ingle.models.gguf import GGUFHeader

NO_DRAFT = "off"


class Preparation(msgspec.Struct, frozen=True):
    """How a model will be loaded; `size` is the estimate of all its bytes."""

    spec: LoadSpec
    size: int


class LoadOptions(msgspec.Struct, frozen=True):
    """What one load asks for; None leaves it to the settings.

    `draft` names the model that guesses for this one; "off" is none, whatever the catalog says.
    `pooling` is for a model that embeds.
    """

    context: int | None = None
    kv_type: KVType | None = None
    draft: str | None = None
    pooling: Pooling | None = None


class Preparer(Protocol):
    """Decides how a model is loaded; blocking, since it reads the file's header."""

    def __call__(self, model: StoredModel, options: LoadOptions, *, available: int) -> Preparation:
        """A context that nobody asked for fits into `available` bytes."""
        ...


class GGUFPreparer:
    """The preparer for GGUF files: the header tells what the memory is needed for."""

    def __init__(self, config: Config, resolve: Callable[[str], StoredModel]) -> None:
        """`resolve` finds draft models."""
        self._config = config
        self._resolve = resolve

    def __call__(self, model: StoredModel, options: LoadOptions, *, available: int) -> Preparation:
        """Raises `InvalidModel`, `UnsupportedModel`, and `ModelNotFound` for the draft model."""
        # Imported here: selecting a backend brings the process machinery with it.
        from ingle.backends.selection import make_load_spec
        from ingle.models.fit import default_context
        from ingle.models.gguf import read_header

        if model.path.is_dir():
            raise UnsupportedModel(
                f"{model.path} holds a model in safetensors, which needs ingle's own engine.",
                hint="Models in GGUF run today: name a .gguf file.",
            )
        config = self._config
        header = read_header(Path(model.path))
        kv_type = options.kv_type or KVType(config.kv_type)
        context = options.context or config.context or default_context(header, available, kv_type)
        spec = make_load_spec(
            Path(model.path),
            header,
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
            pooling=options.pooling if model.task is ModelTask.EMBED else None,
        )
        # Memory beyond the KV cache does not count: it gives way (see `ModelManager._trim`).
        spec = msgspec.structs.replace(spec, kv_store=kv_store_spec(config, model))
        alone = Preparation(spec, _estimated_bytes(header, spec, spec.batch))
        if spec.task is not ModelTask.GENERATE:
            return alone  # it writes nothing that could be guessed
        if options.draft is not None:
            return alone if options.draft == NO_DRAFT else self._with_draft(alone, options.draft)
        if model.draft is None or spec.speculation not in ("auto", "draft"):
            return alone
        try:
            both = self._with_draft(alone, model.draft)
        except ModelNotFound:
            return alone  # it is an offer of the catalog, no need
        return both if both.size <= available else alone

    def _with_draft(self, prepared: Preparation, reference: str) -> Preparation:
        """Add a draft model, whose memory counts too."""
        from ingle.models.fit import DRAFT_BATCH
        from ingle.models.gguf import read_header

        spec, draft = prepared.spec, self._resolve(reference)
        size = _estimated_bytes(read_header(draft.path), spec, min(spec.batch, DRAFT_BATCH))
        speculation = spec.speculation if spec.speculation in ("auto", "draft") else "draft"
        spec = msgspec.structs.replace(spec, draft_path=str(draft.path), speculation=speculation)
        return Preparation(spec, prepared.size + size)


def _estimated_bytes(header: GGUFHeader, spec: LoadSpec, batch: int) -> int:
    from ingle.models.fit import estimate_memory

    return estimate_memory(
        header,
        context=spec.context,
        slots=spec.slots,
        batch=batch,
        kv_type=spec.kv_type,
        flash_attention=spec.flash_attention != "off",
    ).total
