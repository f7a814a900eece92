"""What wrappers hand to kernels, in the types that kernels take."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import c_void_p
from types import MappingProxyType

import torch

ELEMENT_TYPES: Mapping[torch.dtype, int] = MappingProxyType(
    {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
)
"""As csrc/elements.cuh numbers them."""


def pointer(tensor: torch.Tensor | None) -> c_void_p:
    """Where a tensor's first element is; null for none."""
    return c_void_p(None if tensor is None else tensor.data_ptr())
