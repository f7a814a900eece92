"""Rotary position embedding (RoPE) with pairs half a rotation apart (NeoX), and its tables."""

from __future__ import annotations

from ctypes import c_float, c_int

import torch

from ..launch.kernel_arguments import pointer
from ..launch.kernel_library import KernelLibrary


def rotary_tables(
    positions: torch.Tensor, frequencies: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine (tokens, pairs) fp32 of every position times every frequency, scaled.

    `positions` is (tokens,) of integers, `frequencies` (pairs,) fp32 in radians a position. Angles
    are products in double precision: in single precision those of position 1,000,000 would be off
    by 0.03.
    """
    angles = positions.double()[:, None] * frequencies.double()[None, :]
    return (angles.cos() * scale).float(), (angles.sin() * scale).float()


def rope_reference(
    query: torch.Tensor, key: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor
) -> None:
    """Rotate the first `2 * pairs` elements of every head, in place and computed in fp32.

    `query` is (tokens, heads, head_size), `key` (tokens, kv_heads, head_size); `cosine` and `sine`
    are (tokens, pairs) fp32. The other elements stay as they are.
    """
    pairs = cosine.shape[1]
    cosine, sine = cosine[:, None, :], sine[:, None, :]
    for heads in (query, key):
        first, second = heads[..., :pairs].float(), heads[..., pairs : 2 * pairs].float()
        turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
        heads[..., : 2 * pairs] = turned.to(heads.dtype)


_WARPS = 4


def launch_rotary_tables(
    library: KernelLibrary, positions: torch.Tensor, frequencies: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`rotary_tables` in one launch, within 3e-7 of `scale`: csrc/rotary_tables.cuh.

    `positions` are (tokens,) int64, `frequencies` (pairs,) fp32. Raises `ValueError` otherwise.
    """
    tokens, pairs = len(positions), len(frequencies)
    if positions.dtype != torch.int64 or frequencies.dtype != torch.float32:
        raise ValueError(f"{positions.dtype} by {frequencies.dtype} are no angles.")
    cosine, sine = torch.empty(2, tokens, pairs, dtype=torch.float32, device=positions.device)
    arguments = (
        *(pointer(each) for each in (positions, frequencies, cosine, sine)),
        *(c_int(tokens), c_int(pairs), c_float(scale)),
    )
    grid = (-(-tokens // _WARPS), 1, 1)
    if tokens:
        library.launch("rotary_tables.cuh", "rotary_tables", grid, (32 * _WARPS, 1, 1), arguments)
    return cosine, sine
