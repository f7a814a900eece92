"""GEMM of many tokens with the experts picked for them: csrc/expert_gemm.cuh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch

from ..elementwise.activations import quantize_q8_reference
from ..formats.repack import repack
from ..formats.weight import QuantizedTensor, RepackedTensor
from ..launch.kernel_arguments import pointer
from .epilogue import epilogue_arguments
from .expert_gemv import LARGEST_ERROR, expert_gemv_reference, has_expert_kernel
from .expert_layers import ExpertLayer
from .quantized_gemm import GEMM_COSTS, QuantizedGemm

_WIDTHS = (8, 32)
"""The rows of a block, as csrc/expert_gemm.cuh compiles them."""
_CHECKED = 70


class ExpertBlocks(NamedTuple):
    """The rows of a product that has the picks of some tokens: blocks of `wide`, each one expert's.

    `experts` (1 + blocks,) int32 are the number of blocks in use and the expert of each, `tokens`
    (blocks * wide,) int64 the token of each row, 0 where there is none, and `rows` (tokens, used)
    int64 the row of each pick.
    """

    wide: int
    experts: torch.Tensor
    tokens: torch.Tensor
    rows: torch.Tensor


def expert_blocks(picked: torch.Tensor, count: int, wide: int) -> ExpertBlocks:
    """Sort the picks (tokens, used) int64 of `count` experts by torch, without waiting."""
    picks, device = picked.flatten(), picked.device
    sizes = torch.zeros(count, dtype=torch.int64, device=device)
    sizes.scatter_add_(0, picks, torch.ones_like(picks))
    blocks = (sizes + wide - 1) // wide
    ends = blocks.cumsum(0)
    order = picks.argsort(stable=True)
    place = torch.arange(len(picks), device=device)
    # From the place among all picks to the row: an expert's first pick begins a block.
    moved = (ends - blocks) * wide - (sizes.cumsum(0) - sizes)
    rows = torch.empty_like(picks).scatter_(0, order, place + moved[picks[order]])
    most = len(picks) // wide + min(count, len(picks))
    owners = torch.searchsorted(ends, torch.arange(most, device=device), right=True)
    experts = torch.cat([ends[-1:], owners.clamp(max=count - 1)]).int()
    tokens = torch.zeros(most * wide, dtype=torch.int64, device=device)
    tokens.scatter_(0, rows, place // picked.shape[1])
    return ExpertBlocks(wide, experts, tokens, rows.view_as(picked))


def block_width(picks: int, count: int, costs: Mapping[int, float] = GEMM_COSTS) -> int:
    """The cheapest rows of a block for so many picks among `count` experts, evenly spread."""
    # Each expert's last block is half full.
    return min(_WIDTHS, key=lambda wide: (picks / wide + min(count, picks) / 2) * costs[wide])


class ExpertGemm:
    """Multiplies quantised activations by picked matrices, in the workspace of `gemm`."""

    def __init__(self, gemm: QuantizedGemm) -> None:
        self._gemm = gemm

    def multiply(
        self, layer: ExpertLayer, tiles: torch.Tensor, blocks: ExpertBlocks
    ) -> torch.Tensor:
        """Outputs plus biases (rows, outputs) float32 of the blocks' rows.

        `tiles` are (tiles, rows, 1536). Rows of blocks that are not in use are undefined. Raises
        `ValueError` if shapes do not fit or `has_expert_kernel` is false.
        """
        weight, outputs = layer.weight, layer.outputs
        if not isinstance(weight, RepackedTensor) or not has_expert_kernel(weight):
            raise ValueError("There are no kernels for experts in this format.")
        inputs, columns, wide = weight.shape[1], len(blocks.tokens), blocks.wide
        if tiles.shape[:2] != (-(-inputs // 1024), columns) or not tiles.is_contiguous():
            raise ValueError(f"{tuple(tiles.shape)} tiles do not fit {columns} by {inputs}.")
        out = torch.empty(columns, outputs, dtype=torch.float32, device=tiles.device)
        to, _, *others = epilogue_arguments(out, columns, outputs, None, None)
        self._gemm.launch(
            f"expert_gemm_{weight.format.kernel}",
            f"{weight.format.kernel}_expert_gemm",
            weight,
            outputs,
            tiles,
            self._gemm.plan_blocks(weight, outputs, columns, wide),
            [to, pointer(layer.bias), *others, pointer(blocks.experts)],
        )
        return out


def expert_gemm_failures(
    gemm: ExpertGemm, weights: Iterable[QuantizedTensor], device: torch.device
) -> list[str]:
    """A description of each matrix whose rows, as those of two experts, are multiplied wrongly.

    All widths of blocks are tried. Waits for the device.
    """
    found: list[str] = []
    for weight in weights:
        half = len(weight.data) // 2
        part = weight.rows(slice(0, 2 * half))
        generator = torch.Generator(device).manual_seed(1)
        x = torch.randn(_CHECKED, part.columns, device=device, generator=generator)
        picked = (torch.arange(_CHECKED, device=device) % 3 == 0).long()[:, None]
        tiles = quantize_q8_reference(x)
        right = expert_gemv_reference(part, 2, tiles, picked)
        layer = ExpertLayer(repack(part), 2)
        for wide in _WIDTHS:
            blocks = expert_blocks(picked, 2, wide)
            result = gemm.multiply(layer, tiles.index_select(1, blocks.tokens), blocks)
            result = result.index_select(0, blocks.rows.flatten()).double()
            error = float((result - right).square().sum() / right.square().sum())
            if not error <= LARGEST_ERROR:
                found.append(
                    f"{weight.type} by blocks of {wide} of picked experts is off by {error:.1e}"
                )
    return found
