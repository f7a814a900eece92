"""The bytes of a file as a tensor, without reading them."""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch

from ..errors import InvalidModel
from ..model_file import open_model_file

FLOAT_DTYPES: Mapping[str, torch.dtype] = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
"""The dtypes of float tensors, by their names in GGUF and safetensors files."""


def map_file(path: Path) -> torch.Tensor:
    """The whole file (bytes,) uint8, memory-mapped: pages are read when they are touched.

    The tensor must not be written to. Raises `ModelNotFound` or `InvalidModel`.
    """
    with open_model_file(path) as file:
        if not os.fstat(file.fileno()).st_size:
            raise InvalidModel(f"{path} is empty.", hint="Download it again.")
        # Read-only rather than private and writable, which Linux counts as memory in use.
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with warnings.catch_warnings():
        # torch has no read-only tensors and warns of that.
        warnings.filterwarnings("ignore", "The given buffer is not writable")
        return torch.frombuffer(pages, dtype=torch.uint8)
