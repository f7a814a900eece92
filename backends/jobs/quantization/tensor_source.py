"""The interface through which quantisation reads its source model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from ingle.models.config.model_config import ModelConfig
from ingle.models.gguf.gguf_writer import PlannedTensor

from .ggml_library import Floats, GGMLLibrary, Raw
from .type_mixture import QuantizedShape


class TensorSource(Protocol):
    """A model's metadata, and its tensors one at a time."""

    @property
    def shape(self) -> QuantizedShape:
        """Return the properties on which the choice of types depends."""
        ...

    @property
    def path(self) -> Path:
        """Return the path of the file or folder."""
        ...

    @property
    def config(self) -> ModelConfig | None:
        """Return the model's configuration if its metadata was translated, else None."""
        ...

    @property
    def quantization(self) -> str:
        """Return the quantisation of the source."""
        ...

    @property
    def size(self) -> int:
        """Return the bytes of its weights."""
        ...

    @property
    def tensors(self) -> Sequence[PlannedTensor]:
        """Return all tensors with their present types, or the types they must have."""
        ...

    @property
    def num_metadata_tensors(self) -> int:
        """Return the number of leading tensors with properties that no key can express."""
        ...

    @property
    def files(self) -> Sequence[Path]:
        """Return the files that are read."""
        ...

    @property
    def stamp(self) -> str:
        """Return a key that changes when a file changes."""
        ...

    def pairs(self) -> Sequence[bytes]:
        """Return the encoded keys of the GGUF header but those about the quantisation."""
        ...

    def floats(self, tensor: PlannedTensor, library: GGMLLibrary) -> Floats:
        """Return the tensor's values (rows, row length)."""
        ...

    def raw(self, tensor: PlannedTensor) -> Raw | None:
        """Return the tensor's stored bytes if its type is the planned one, else None."""
        ...


def files_stamp(paths: Iterable[Path]) -> str:
    """Return a key that changes when one of the files does."""
    found = ((path, path.stat()) for path in paths)
    return ";".join(f"{path}:{status.st_size}:{status.st_mtime_ns}" for path, status in found)
