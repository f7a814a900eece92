"""The types that a weight matrix can have: as its file stores it, and as the kernels read it."""

from __future__ import annotations

import torch

from .nf4_tensor import NF4Tensor
from .quantized_tensor import QuantizedTensor
from .repacked_nf4 import RepackedNF4
from .repacked_tensor import RepackedTensor
from .weight_format import WEIGHT_FORMATS, WeightFormat

Weight = torch.Tensor | QuantizedTensor | NF4Tensor
"""As a model's file stores it."""
Repacked = RepackedTensor | RepackedNF4
"""In the layout that the kernels read."""
PreparedWeight = Weight | Repacked
"""As an `Operations` multiplies by it."""


def format_name(weight: PreparedWeight) -> str:
    """The name of the format or dtype, such as `Q4_K`, `NF4` or `bfloat16`."""
    if isinstance(weight, torch.Tensor):
        return str(weight.dtype).removeprefix("torch.")
    return getattr(weight, "type", "NF4")


def format_of(weight: Repacked) -> WeightFormat:
    """The format of repacked weights."""
    return WEIGHT_FORMATS[format_name(weight)]
