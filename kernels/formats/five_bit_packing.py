"""Groups of 32 weights of five bits as 16 bytes of nibbles and four of what is left.

csrc/weight_group.cuh says how kernels put them together again.
"""

from __future__ import annotations

import torch


def pack_five_bits(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of `weights` (..., 32) uint8 below 32: nibbles (..., 16) and fifth bits (..., 4)."""
    first, last = weights[..., :16], weights[..., 16:]
    nibbles = first & 15 | last >> 1 << 4
    words = (*weights.shape[:-1], 4, 4)
    f0, f1, f2, f3 = (first >> 4).reshape(words).unbind(-2)
    l0, l1, l2, l3 = (last & 1).reshape(words).unbind(-2)
    low = f3 | l1 << 1 | f1 << 2 | l0 << 3
    return nibbles, low | f0 << 4 | l2 << 5 | f2 << 6 | l3.roll(-1, -1) << 7


def unpack_five_bits(nibbles: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """The weights again: undoes `pack_five_bits`."""
    fifth = torch.stack((bits >> 4, bits >> 2, bits >> 6, bits), dim=-2).flatten(-2) & 1
    lowest = torch.stack((bits >> 3, bits >> 1, bits >> 5, (bits >> 7).roll(1, -1)), dim=-2)
    last = nibbles >> 4 << 1 | lowest.flatten(-2) & 1
    return torch.cat((nibbles & 15 | fifth << 4, last), dim=-1)
