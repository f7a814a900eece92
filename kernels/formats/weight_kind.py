"""What a matrix is stored as, in a word."""

from __future__ import annotations

import torch

from .prepared_weight import PreparedWeight


def kind_of(weight: PreparedWeight) -> str:
    """Such as `Q4_K`, `NF4` or `bfloat16`."""
    if isinstance(weight, torch.Tensor):
        return str(weight.dtype).removeprefix("torch.")
    return getattr(weight, "type", "NF4")
