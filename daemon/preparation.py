"""From a stored model to the way it is loaded and the memory that takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from ingle.backends.base import LoadSpec
from ingle.models.errors import ModelNotFound
from ingle.models.store import StoredModel

from .config import Config

NO_DRAFT = "off"


class Preparation(msgspec.Struct, frozen=True):
    """How a model will be loaded; `size` is the estimate of all its bytes."""

    spec: LoadSpec
    size: int


class LoadOptions(msgspec.Struct, frozen=True):
    """What one load asks for; None leaves it to the settings.

    `draft` names the model that guesses for this one; "off" is none, whatever the catalog says.
    """

    context: int | None = None
    draft: str | None = None


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
        from ingle.models.fit import default_context, estimate_memory
        from ingle.models.gguf import read_header

        config = self._config
        header = read_header(Path(model.path))
        spec = make_load_spec(
            Path(model.path),
            header,
            context=options.context or config.context or default_context(header, available),
            slots=config.slots,
            threads=config.threads,
            gpu_layers=config.gpu_layers,
            chat_template=model.chat_template,
            speculation=config.speculation,
            compute_lease=config.paths.compute_lease,
        )
        estimate = estimate_memory(header, context=spec.context, slots=spec.slots, batch=spec.batch)
        alone = Preparation(spec, estimate.total)
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
        from ingle.models.fit import DRAFT_BATCH, estimate_memory
        from ingle.models.gguf import read_header

        spec, draft = prepared.spec, self._resolve(reference)
        estimate = estimate_memory(
            read_header(draft.path),
            context=spec.context,
            slots=spec.slots,
            batch=min(spec.batch, DRAFT_BATCH),
        )
        speculation = spec.speculation if spec.speculation in ("auto", "draft") else "draft"
        spec = msgspec.structs.replace(spec, draft_path=str(draft.path), speculation=speculation)
        return Preparation(spec, prepared.size + estimate.total)
