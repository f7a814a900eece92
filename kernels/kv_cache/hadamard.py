"""The Hadamard rotation that spreads large elements of a head over its block."""

from __future__ import annotations

import torch

from .kv_page_format import block_size


def hadamard(heads: torch.Tensor) -> torch.Tensor:
    """Rotate `heads` (..., head_size) to float32; the rotation is its own inverse.

    The matrix is symmetric and orthonormal, so that products of rotated queries with rotated keys
    equal those of the unrotated ones. It is a Hadamard matrix (Sylvester's: entry i, j is positive
    if `i & j` has an even number of ones) for each block of a head; see `block_size`.
    """
    return hadamard_reference(heads)


def hadamard_reference(heads: torch.Tensor) -> torch.Tensor:
    """See `hadamard`.

    Sums and differences of pairs, from neighbours to elements half a block apart. The order is part
    of the contract: codes are rounded from the result and must be equal on every device.
    """
    size = block_size(heads.shape[-1])
    rows = heads.float().reshape(-1, size)
    step = 1
    while step < size:
        pairs = rows.view(-1, 2, step)
        first, second = pairs[:, 0], pairs[:, 1]
        rows = torch.stack((first + second, first - second), 1)
        step *= 2
    return (rows * size**-0.5).view(heads.shape)
