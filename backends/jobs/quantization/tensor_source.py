"""The interface through which quantisation reads its source model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ingle.models.config.model_config import ModelConfig
from ingle.models.gguf.gguf_writer import PlannedTensor

from .arrays import Floats, Raw
from .messages import QuantizeProgress
from .type_mixture import QuantizedShape

if TYPE_CHECKING:
    from ...llama_cpp.ggml_library import GGMLLibrary


Send = Callable[[QuantizeProgress], None]


class TensorSource(ABC):
    """A model's metadata, and its tensors one at a time."""

    path: Path
    quantization: str
    size: int
    """Bytes of its weights."""
    shape: QuantizedShape
    """The properties on which the choice of types depends."""
    tensors: Sequence[PlannedTensor]
    """All tensors with their present types, or the types they must have."""
    config: ModelConfig | None = None
    """The model's configuration if its metadata was translated, else None."""
    importance: dict[str, Floats]
    """How much each column (matrices, columns) of a tensor matters, by its name, if that is known.
    """
    num_metadata_tensors: int = 0
    """The number of leading tensors with properties that no key can express."""

    @property
    @abstractmethod
    def files(self) -> Sequence[Path]:
        """Return the files that are read."""

    @property
    def stamp(self) -> str:
        """Return a key that changes when a file changes."""
        found = ((path, path.stat()) for path in self.files)
        return ";".join(f"{path}:{status.st_size}:{status.st_mtime_ns}" for path, status in found)

    @abstractmethod
    def pairs(self) -> Sequence[bytes]:
        """Return the encoded keys of the GGUF header but those about the quantisation."""

    @abstractmethod
    def floats(self, tensor: PlannedTensor, library: GGMLLibrary) -> Floats:
        """Return the tensor's values (rows, row length)."""

    def raw(self, tensor: PlannedTensor) -> Raw | None:
        """Return the tensor's stored bytes if its type is the planned one, else None."""
        return None
