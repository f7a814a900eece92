"""From a stored model to the way it is loaded and the memory that takes."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from ingle.backends.base import LoadSpec
from ingle.models.store import StoredModel

from .config import Config


class Preparation(msgspec.Struct, frozen=True):
    """How a model will be loaded; `size` is the estimate of all its bytes."""

    spec: LoadSpec
    size: int


class Preparer(Protocol):
    """Decides how a model is loaded; blocking, since it reads the file's header."""

    def __call__(self, model: StoredModel, *, context: int | None, available: int) -> Preparation:
        """`context` None is automatic, which fits it into `available` bytes."""
        ...


class GGUFPreparer:
    """The preparer for GGUF files: the header tells what the memory is needed for."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def __call__(self, model: StoredModel, *, context: int | None, available: int) -> Preparation:
        """Raises `InvalidModel` and `UnsupportedModel`."""
        # Imported here: selecting a backend brings the process machinery with it.
        from ingle.backends.selection import make_load_spec
        from ingle.models.fit import default_context, estimate_memory
        from ingle.models.gguf import read_header

        config = self._config
        header = read_header(Path(model.path))
        spec = make_load_spec(
            Path(model.path),
            header,
            context=context or config.context or default_context(header, available),
            slots=config.slots,
            threads=config.threads,
            gpu_layers=config.gpu_layers,
            chat_template=model.chat_template,
        )
        estimate = estimate_memory(header, context=spec.context, slots=spec.slots, batch=spec.batch)
        return Preparation(spec, estimate.total)
