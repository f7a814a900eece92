"""What quantising asks of a model to be made smaller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from ingle.models.config.model_config import ModelConfig
from ingle.models.gguf.gguf_writer import PlannedTensor

from .ggml_library import Floats, GGMLLibrary, Raw
from .type_mixture import QuantizedShape


class TensorSource(Protocol):
    """A model's header, and its tensors one at a time."""

    @property
    def shape(self) -> QuantizedShape:
        """What the choice of types depends on."""
        ...

    @property
    def path(self) -> Path:
        """Where it lies."""
        ...

    @property
    def config(self) -> ModelConfig | None:
        """What it says of itself, where that was put into words anew."""
        ...

    @property
    def quantization(self) -> str:
        """What it is stored as."""
        ...

    @property
    def size(self) -> int:
        """Bytes of its weights."""
        ...

    @property
    def tensors(self) -> Sequence[PlannedTensor]:
        """All of them, with the types they have, or have to be stored in where those are kept."""
        ...

    @property
    def told_by_tensors(self) -> int:
        """How many tensors come first that tell of the model what no key can."""
        ...

    @property
    def files(self) -> Sequence[Path]:
        """All that is read of it."""
        ...

    @property
    def stamp(self) -> str:
        """Changes when a file of it does."""
        ...

    def pairs(self) -> Sequence[bytes]:
        """The encoded keys of the GGUF header, but for those that tell of the quantisation."""
        ...

    def floats(self, tensor: PlannedTensor, library: GGMLLibrary) -> Floats:
        """Its values (rows, row length)."""
        ...

    def raw(self, tensor: PlannedTensor) -> Raw | None:
        """Its bytes as they are stored, where the type that it has there is the one planned."""
        ...


def files_stamp(paths: Iterable[Path]) -> str:
    """Changes when one of the files does."""
    found = ((path, path.stat()) for path in paths)
    return ";".join(f"{path}:{status.st_size}:{status.st_mtime_ns}" for path, status in found)
