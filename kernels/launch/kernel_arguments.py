"""Kernel arguments: element types and pointers."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import c_void_p
from typing import Literal

import torch

ELEMENT_TYPES: Mapping[torch.dtype, int] = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
"""The numbers of the dtypes in csrc/elements.cuh."""

DTYPE_NAMES: Mapping[torch.dtype, Literal["f16", "bf16"]] = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
}
"""The 16-bit dtypes in names of kernels."""


def pointer(tensor: torch.Tensor | None) -> c_void_p:
    """The address of a tensor's first element; null for None."""
    return c_void_p(None if tensor is None else tensor.data_ptr())
