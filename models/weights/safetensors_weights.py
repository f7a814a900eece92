"""The tensors of a safetensors folder, as its files store them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from ..errors import InvalidModel, UnsupportedModel
from ..safetensors.safetensors_header import StoredTensor
from ..safetensors.safetensors_index import find_tensors
from .mapped_file import FLOAT_DTYPES, map_file

_ALL: Mapping[str, torch.dtype] = {
    **FLOAT_DTYPES,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I32": torch.int32,
    "I64": torch.int64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
}


class SafetensorsWeights:
    """Tensors by the checkpoint's own names and in its own conventions, memory-mapped.

    Nothing is read before it is used.
    """

    def __init__(
        self, folder: Path, tensors: Mapping[str, tuple[Path, StoredTensor]] | None = None
    ) -> None:
        """Check all files; raises `ModelNotFound`, `InvalidModel` or `UnsupportedModel`.

        `tensors` are those of the model in the folder, unless others are given with their files.
        """
        self.folder = folder
        self._tensors = find_tensors(folder) if tensors is None else tensors
        self.names = self._tensors.keys()
        """Every tensor there is."""
        self._files = {
            path: map_file(path) for path in {path for path, _ in self._tensors.values()}
        }
        for path, tensor in self._tensors.values():
            if tensor.offset + tensor.bytes > len(self._files[path]):
                raise InvalidModel(f"{path} was cut short while it was opened.", hint="Try again.")

    def get(self, name: str) -> torch.Tensor:
        """The tensor, where possible a view of its file.

        Raises `InvalidModel` where there is none, `UnsupportedModel` for one that holds no floats
        of 16 or 32 bits.
        """
        return self._view(name, FLOAT_DTYPES)

    def get_raw(self, name: str) -> torch.Tensor:
        """The same, but also for the integers and short floats that quantised checkpoints have."""
        return self._view(name, _ALL)

    def _view(self, name: str, dtypes: Mapping[str, torch.dtype]) -> torch.Tensor:
        if name not in self._tensors:
            raise InvalidModel(
                f"{self.folder} has no tensor {name!r}.",
                hint="The model is incomplete, or of another architecture than it says.",
            )
        path, tensor = self._tensors[name]
        dtype = dtypes.get(tensor.dtype)
        if dtype is None:
            raise UnsupportedModel(
                f"{self.folder} stores {name!r} as {tensor.dtype}, which no kernel here reads.",
                hint="Choose an edition in BF16, F16 or F32, or one quantised as AWQ or GPTQ.",
            )
        raw = self._files[path][tensor.offset : tensor.offset + tensor.bytes]
        if tensor.offset % dtype.itemsize:  # allowed, and no view can begin there
            raw = raw.clone()
        return raw.view(dtype).view(tensor.shape)
