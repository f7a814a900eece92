"""The tensors of a GGUF file, as the file stores them."""

from __future__ import annotations

from math import prod
from pathlib import Path

import torch

from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.formats.weight_format import GGML_FORMATS

from ..errors import InvalidModel, UnsupportedModel
from ..gguf.gguf_header import GGUFHeader, TensorInfo, read_header
from .mapped_file import FLOAT_DTYPES, map_file


class GGUFWeights:
    """Tensors by the file's own names and in its own conventions, memory-mapped; all parts of it.

    Plain ones have torch's shape, which is ggml's turned round; quantised ones keep their blocks,
    those of several matrices as the rows of one.
    Nothing is read before it is used.
    """

    def __init__(self, path: Path, header: GGUFHeader | None = None) -> None:
        """Check the file; raises `ModelNotFound`, `InvalidModel` or `UnsupportedModel`.

        `header` is that of a file that holds no model.
        """
        self.header: GGUFHeader = header or read_header(path)
        self._tensors = {tensor.name: tensor for tensor in self.header.tensors}
        self.names = self._tensors.keys()
        """Every tensor there is."""
        for tensor in self.header.tensors:
            self._check_type(tensor)
        self._bytes = [map_file(file) for file in self.header.files]
        if any(t.offset + t.bytes > len(self._bytes[t.file]) for t in self.header.tensors):
            raise InvalidModel(f"{path} was cut short while it was opened.", hint="Try again.")

    def get(self, name: str) -> torch.Tensor | QuantizedTensor:
        """The tensor, a view of the file; raises `InvalidModel` where there is none."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise InvalidModel(
                f"{self.header.path} has no tensor {name!r}.",
                hint="The file is incomplete, or of another architecture than it says.",
            )
        raw = self._bytes[tensor.file][tensor.offset : tensor.offset + tensor.bytes]
        if (dtype := FLOAT_DTYPES.get(tensor.type)) is not None:
            return raw.view(dtype).view(tensor.shape[::-1])
        columns, *rows = tensor.shape
        return QuantizedTensor(tensor.type, raw.view(prod(rows), -1), columns)

    def _check_type(self, tensor: TensorInfo) -> None:
        if tensor.type not in GGML_FORMATS:
            raise UnsupportedModel(
                f"{self.header.path} stores {tensor.name!r} as {tensor.type}, which only llama.cpp"
                " computes with.",
                hint=f"Run it with llama.cpp, or choose one of {', '.join(GGML_FORMATS)}.",
            )
