"""The layouts of Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 for the kernels, drawn in docs/kernels.md.

Each packing takes whole rows of blocks (rows, blocks, bytes) uint8 and gives rows of bytes; each
unpacking takes the rows and how many blocks they hold, and undoes it.
"""

from __future__ import annotations

import torch

from .five_bit_packing import pack_five_bits, unpack_five_bits
from .weight_tiles import from_tiles, tile_blocks

# A block is a group of its own: one for each lane of a warp.
_TILE_BLOCKS = 32


def pack_four_bits(blocks: torch.Tensor) -> torch.Tensor:
    """Of Q4_0 and Q4_1, whose nibbles are already in place."""
    return tile_blocks((blocks[..., -16:], blocks[..., :-16]), _TILE_BLOCKS)


def unpack_q4_0(data: torch.Tensor, count: int) -> torch.Tensor:
    """See the module."""
    return _unpack_four_bits(data, count, 2)


def unpack_q4_1(data: torch.Tensor, count: int) -> torch.Tensor:
    """See the module."""
    return _unpack_four_bits(data, count, 4)


def _unpack_four_bits(data: torch.Tensor, count: int, scale_bytes: int) -> torch.Tensor:
    nibbles, scales = from_tiles(data, _TILE_BLOCKS, count, (16, scale_bytes))
    return torch.cat((scales, nibbles), dim=-1)


def pack_block_of_five_bits(blocks: torch.Tensor) -> torch.Tensor:
    """Of Q5_0 and Q5_1: scales, the 32 highest bits, nibbles."""
    shifts = torch.arange(8, dtype=torch.uint8, device=blocks.device)
    highest = (blocks[..., -20:-16, None] >> shifts & 1).flatten(-2)
    packed = blocks[..., -16:]
    weights = torch.cat((packed & 15, packed >> 4), dim=-1) | highest << 4
    return tile_blocks((*pack_five_bits(weights), blocks[..., :-20]), _TILE_BLOCKS)


def unpack_q5_0(data: torch.Tensor, count: int) -> torch.Tensor:
    """See the module."""
    return _unpack_five_bits(data, count, 2)


def unpack_q5_1(data: torch.Tensor, count: int) -> torch.Tensor:
    """See the module."""
    return _unpack_five_bits(data, count, 4)


def _unpack_five_bits(data: torch.Tensor, count: int, scale_bytes: int) -> torch.Tensor:
    nibbles, bits, scales = from_tiles(data, _TILE_BLOCKS, count, (16, 4, scale_bytes))
    weights = unpack_five_bits(nibbles, bits)
    shifts = torch.arange(8, dtype=torch.uint8, device=data.device)
    highest = (weights >> 4).view(*weights.shape[:-1], 4, 8) << shifts
    packed = weights[..., :16] & 15 | weights[..., 16:] << 4
    return torch.cat((scales, highest.sum(-1, dtype=torch.uint8), packed), dim=-1)


def pack_q8_0(blocks: torch.Tensor) -> torch.Tensor:
    """See the module."""
    return tile_blocks((blocks[..., 2:18], blocks[..., 18:], blocks[..., :2]), _TILE_BLOCKS)


def unpack_q8_0(data: torch.Tensor, count: int) -> torch.Tensor:
    """See the module."""
    first, last, scales = from_tiles(data, _TILE_BLOCKS, count, (16, 16, 2))
    return torch.cat((scales, first, last), dim=-1)
