"""A source with the matrices of a LoRA adapter added to its weights."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ingle.models.adapters.adapter_settings import GGUF, AdapterSettings
from ingle.models.adapters.gguf_adapter import GGUFAdapterSettings
from ingle.models.adapters.gguf_conversion import as_float32, write_gguf_adapter
from ingle.models.errors import InvalidModel
from ingle.models.gguf.gguf_writer import PlannedTensor

from ...llama_cpp.ggml_library import GGMLLibrary
from .arrays import Floats, Raw
from .tensor_source import TensorSource


class MergedSource(TensorSource):
    """The tensors of `source`, those that the adapter in `folder` changes with its product."""

    def __init__(self, source: TensorSource, folder: Path) -> None:
        """Raises `InvalidModel` for an adapter of another model, `UnsupportedModel`."""
        self._source = source
        self.importance = {}
        self.path = source.path
        self.quantization = source.quantization
        self.size = source.size
        self.shape = source.shape
        self.tensors = source.tensors
        self.config = source.config
        self.num_metadata_tensors = source.num_metadata_tensors
        with tempfile.TemporaryDirectory() as place:
            file = folder / GGUF
            if not file.exists():
                assert source.config is not None, "a GGUF model has its adapters in GGUF files"
                write_gguf_adapter(
                    AdapterSettings(folder), source.config, file := Path(place) / GGUF
                )
            self._deltas = _read(GGUFAdapterSettings(file), file)
        shapes = {tensor.name: tensor.shape for tensor in self.tensors}
        for name, (down, up) in self._deltas.items():
            if shapes.get(name) != (down.shape[1], up.shape[0]):
                raise InvalidModel(
                    f"The adapter changes {name!r} of {up.shape[0]} by {down.shape[1]} values, and "
                    f"the model has {shapes.get(name, 'no such matrix')}.",
                    hint="Use it with the model that it was made for.",
                )

    @property
    def files(self) -> Sequence[Path]:
        """See `TensorSource.files`."""
        return self._source.files

    def pairs(self) -> Sequence[bytes]:
        """See `TensorSource.pairs`."""
        return self._source.pairs()

    def floats(self, tensor: PlannedTensor, library: GGMLLibrary) -> Floats:
        """See `TensorSource.floats`."""
        values = self._source.floats(tensor, library)
        if tensor.name not in self._deltas:
            return values
        down, up = self._deltas[tensor.name]
        return values + np.matmul(up, down, dtype=np.float32)

    def raw(self, tensor: PlannedTensor) -> Raw | None:
        """See `TensorSource.raw`."""
        return None if tensor.name in self._deltas else self._source.raw(tensor)


def _read(adapter: GGUFAdapterSettings, file: Path) -> dict[str, tuple[Floats, Floats]]:
    """The two matrices (rank, inputs) and (outputs, rank) of each changed tensor, scaled."""
    tensors = {tensor.name: tensor for tensor in adapter.header.tensors}
    found: dict[str, tuple[Floats, Floats]] = {}
    with file.open("rb") as stream:

        def matrix(name: str) -> Floats:
            tensor = tensors[name]
            stream.seek(tensor.offset)
            return as_float32(stream.read(tensor.bytes), tensor.type).reshape(tensor.shape[::-1])

        for module in adapter.modules:
            up = matrix(adapter.up(module))
            scale = np.full((), adapter.scale(module, up.shape[1]), np.float32)
            found[f"{module}.weight"] = matrix(adapter.down(module)), up * scale
    return found
