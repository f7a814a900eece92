"""The picks of a mixture of experts, sorted before its products and summed after them."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import c_int

import torch

from ..launch.kernel_arguments import pointer
from ..launch.kernel_library import KernelLibrary
from .expert_gemm import ExpertBlocks, expert_blocks
from .expert_layers import weighted

_SOURCE = "expert_picks.cuh"
_MOST_EXPERTS = 1024
_WARPS = 8


class ExpertPicks:
    """Sorts and sums with the kernels of `library`, a launch each: csrc/expert_picks.cuh."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def sort(self, picked: torch.Tensor, count: int, wide: int) -> ExpertBlocks:
        """See `expert_blocks`, which has the same numbers."""
        picks, device = picked.numel(), picked.device
        if count > _MOST_EXPERTS:
            return expert_blocks(picked, count, wide)
        most = picks // wide + min(count, picks)
        experts = torch.empty(1 + most, dtype=torch.int32, device=device)
        tokens = torch.empty(most * wide, dtype=torch.int64, device=device)
        rows = torch.empty(picked.shape, dtype=torch.int64, device=device)
        numbers = picks, picked.shape[1], count, wide, most
        arguments = (
            *map(pointer, (picked.contiguous(), experts, tokens, rows)),
            *map(c_int, numbers),
        )
        grid, block = (-(-count // _WARPS), 1, 1), (32 * _WARPS, 1, 1)
        self._library.launch(_SOURCE, "sort_picks", grid, block, arguments)
        return ExpertBlocks(wide, experts, tokens, rows)

    def sum(
        self, products: torch.Tensor, weights: torch.Tensor, rows: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The weighted sum (tokens, size) fp32 of each token's `products` (rows, size) fp32.

        `weights` are (tokens, used) fp32, `rows` (tokens, used) int64 the products of the picks; if
        None, they follow one another. Picks without weight add nothing, whatever their products
        are. Sizes are a multiple of four.
        """
        (tokens, used), size = weights.shape, products.shape[1]
        if size % 4 or products.dtype != torch.float32 or not products.is_contiguous():
            raise ValueError(f"Products of {size} {products.dtype} are not summed.")
        out = torch.empty(tokens, size, dtype=torch.float32, device=products.device)
        given = products, weights if rows is None else rows, weights.contiguous(), out
        numbers = used, size, rows is not None
        arguments = *map(pointer, given), *map(c_int, numbers)
        grid = (tokens, -(-size // 1024), 1)
        self._library.launch(_SOURCE, "sum_picks", grid, (256, 1, 1), arguments)
        return out


def sum_picks_reference(
    products: torch.Tensor, weights: torch.Tensor, rows: torch.Tensor | None = None
) -> torch.Tensor:
    """See `ExpertPicks.sum`: picks are added in their order."""
    if rows is None:
        rows = torch.arange(weights.numel(), device=weights.device).view_as(weights)
    out = products.new_zeros(len(weights), products.shape[1])
    for mine, weight in zip(rows.unbind(1), weights.unbind(1), strict=True):
        out += weighted(products.index_select(0, mine), weight[:, None])
    return out


def expert_pick_failures(picks: ExpertPicks, device: torch.device) -> Iterator[str]:
    """A description of what is sorted or summed otherwise than by plain torch; waits for it."""
    generator = torch.Generator(device).manual_seed(1)
    for tokens, used, count, wide in ((1, 8, 128, 8), (70, 4, 32, 8), (300, 2, 9, 32)):
        scores = torch.rand(tokens, count, device=device, generator=generator)
        best = scores.topk(used)
        name = f"{used} of {count} experts for {tokens} tokens"
        found, right = (
            picks.sort(best.indices, count, wide),
            expert_blocks(best.indices, count, wide),
        )
        if not all(map(torch.equal, found[1:], right[1:])):
            yield f"Sorting {name} is wrong"
        products = torch.randn(len(right.tokens), 64, device=device, generator=generator)
        given = products, best.values, right.rows
        if not torch.equal(picks.sum(*given), sum_picks_reference(*given)):
            yield f"Summing {name} is wrong"
