"""Activations of linear layers: 16-bit or float32 values, int8 tiles with scales, or both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch


class FP8Inputs(NamedTuple):
    """Inputs (tokens, inputs) float8_e4m3fn.

    Scales are () float32, (tokens, 1), or (tokens, inputs / 128) whose columns are contiguous.
    """

    codes: torch.Tensor
    scales: torch.Tensor


@dataclass(frozen=True, eq=False)
class Activations:
    """Dense values (tokens, size) of a float type, int8 `tiles` (see `q8_tiles`), or both.

    `tiles` are (tiles, tokens, 1536). Either is None if no layer reads that form. `fp8` are the
    forms that layers with FP8 weights have needed so far.
    """

    size: int
    dense: torch.Tensor | None = None
    tiles: torch.Tensor | None = None
    fp8: dict[tuple[bool, int], FP8Inputs] = field(
        default_factory=dict[tuple[bool, int], FP8Inputs]
    )

    @property
    def tokens(self) -> int:
        """The number of rows."""
        if self.dense is not None:
            return self.dense.shape[0]
        assert self.tiles is not None
        return self.tiles.shape[1]


GROUP = 32
TILE = 1024
TILE_BYTES = 1536
# The reciprocal of a smaller scale is infinite.
_SMALLEST = 1e-30


def q8_tiles(columns: int, inputs: int, device: torch.device | None = None) -> torch.Tensor:
    """An empty tensor (tiles, columns, 1536) uint8 for `columns` rows of `inputs` values."""
    return torch.empty(-(-inputs // TILE), columns, TILE_BYTES, dtype=torch.uint8, device=device)


def quantize_q8_reference(x: torch.Tensor) -> torch.Tensor:
    """`x` (columns, inputs) of any float dtype as tiles (tiles, columns, 1536) uint8.

    csrc/q8_tile.cuh describes a tile. `inputs` must be whole groups of 32; the rest of the last
    tile is zero.
    """
    columns, inputs = x.shape
    if inputs % GROUP:
        raise ValueError(f"{inputs} inputs are not whole groups of {GROUP}.")
    padded = torch.nn.functional.pad(x.float(), (0, -inputs % TILE))
    groups = padded.view(columns, -1, GROUP)
    largest = groups.abs().amax(-1)
    scale = torch.where(largest < _SMALLEST, 0.0, _without_last_bits(largest / 127))
    # `127 / largest` would be computed as 127 times a rounded reciprocal.
    inverse = torch.where(largest < _SMALLEST, 0.0, torch.full_like(largest, 127) / largest)
    quantized = (groups * inverse[..., None]).round().nan_to_num(0).to(torch.int8)
    halves = quantized.view(columns, -1, 2, 16).sum(-1, dtype=torch.int32)
    scaled_sum = scale * halves.sum(-1).float()
    facts = torch.stack((scale, scaled_sum), dim=-1).view(torch.int32)
    facts = torch.cat((facts, -32 * halves), dim=-1).view(torch.uint8)
    values = quantized.view(columns, -1, 32, 2, 16).transpose(2, 3).reshape(columns, -1, TILE)
    tiles = torch.cat((values.view(torch.uint8), facts.view(columns, -1, 512)), dim=-1)
    return tiles.transpose(0, 1).contiguous()


def _without_last_bits(scale: torch.Tensor) -> torch.Tensor:
    """Scales without their last two bits, so that three times a scale is exact."""
    return (scale.contiguous().view(torch.int32) & ~3).view(torch.float32)


def dequantize_q8(tiles: torch.Tensor, inputs: int) -> torch.Tensor:
    """The exact values (columns, inputs) float64 of the tiles."""
    count, columns, _ = tiles.shape
    values = tiles[..., :TILE].reshape(count, columns, 2, 32, 16).view(torch.int8)
    scales = tiles[..., TILE:].contiguous().view(torch.float32).view(count, columns, 32, 4)[..., :1]
    groups = values.transpose(2, 3).reshape(count, columns, 32, 32).double() * scales.double()
    return groups.transpose(0, 1).reshape(columns, -1)[:, :inputs]


def q8_groups(tiles: torch.Tensor, inputs: int) -> torch.Tensor:
    """The int8 values and scales (columns, groups, 48) in the order of the inputs."""
    count, columns, _ = tiles.shape
    parts = tiles.view(count, columns, 3, 32, 16).permute(1, 0, 3, 2, 4)
    return parts.reshape(columns, count * 32, 48)[:, : inputs // GROUP]


class ActivationForms(NamedTuple):
    """The forms of activations that later layers read: a dense dtype, int8 tiles."""

    dense: torch.dtype | None = None
    tiles: bool = False
