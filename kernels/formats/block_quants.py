"""Codecs of the formats with blocks of 32 weights: Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0.

Dequantising has the roundings of gguf-py. File layouts: the block structs of ggml-common.h; the
layouts of the kernels are drawn in docs/kernels.md.
"""

from __future__ import annotations

import torch

from .weight_packing import from_tiles, pack_five_bits, tile_blocks, unpack_five_bits

# A block is one group of 32 weights, and a warp takes one group a lane.
_TILE_BLOCKS = 32


def half_precision(raw: torch.Tensor) -> torch.Tensor:
    """Little-endian 16-bit floats (n, 2 k) uint8 as (n, k) float32."""
    # A copy, because a view would ask for an even storage offset.
    return raw.clone(memory_format=torch.contiguous_format).view(torch.float16).float()


def dequantize_q8_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale, then 32 signed bytes."""
    return blocks[:, 2:].view(torch.int8).float().mul_(half_precision(blocks[:, :2]))


def dequantize_q4_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale, then nibbles: the low ones are the first 16 weights; 8 means zero."""
    return _nibbles(blocks[:, 2:]).float().sub_(8).mul_(half_precision(blocks[:, :2]))


def dequantize_q4_1(blocks: torch.Tensor) -> torch.Tensor:
    """A scale and a minimum, then nibbles."""
    scale, minimum = half_precision(blocks[:, :2]), half_precision(blocks[:, 2:4])
    return _nibbles(blocks[:, 4:]).float().mul_(scale).add_(minimum)


def dequantize_q5_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale, the 32 highest bits, then nibbles; 16 means zero."""
    values = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return values.float().sub_(16).mul_(half_precision(blocks[:, :2]))


def dequantize_q5_1(blocks: torch.Tensor) -> torch.Tensor:
    """A scale and a minimum, the 32 highest bits, then nibbles."""
    scale, minimum = half_precision(blocks[:, :2]), half_precision(blocks[:, 2:4])
    values = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return values.float().mul_(scale).add_(minimum)


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    return torch.cat((packed & 15, packed >> 4), dim=1)


def _fifth_bits(packed: torch.Tensor) -> torch.Tensor:
    """Bit i of four bytes, shifted to bit 4, for weight i."""
    shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
    bits = (packed[:, :, None] >> shifts) & 1
    return bits.flatten(1) << 4


def pack_four_bits(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q4_0 or Q4_1, whose nibbles are in the right order already."""
    return tile_blocks((blocks[..., -16:], blocks[..., :-16]), _TILE_BLOCKS)


def unpack_q4_0(data: torch.Tensor, count: int) -> torch.Tensor:
    """Undo `pack_four_bits` for Q4_0."""
    return _unpack_four_bits(data, count, 2)


def unpack_q4_1(data: torch.Tensor, count: int) -> torch.Tensor:
    """Undo `pack_four_bits` for Q4_1."""
    return _unpack_four_bits(data, count, 4)


def _unpack_four_bits(data: torch.Tensor, count: int, scale_bytes: int) -> torch.Tensor:
    nibbles, scales = from_tiles(data, _TILE_BLOCKS, count, (16, scale_bytes))
    return torch.cat((scales, nibbles), dim=-1)


def pack_block_of_five_bits(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q5_0 or Q5_1: scales, the 32 highest bits, nibbles."""
    shifts = torch.arange(8, dtype=torch.uint8, device=blocks.device)
    highest = (blocks[..., -20:-16, None] >> shifts & 1).flatten(-2)
    packed = blocks[..., -16:]
    weights = torch.cat((packed & 15, packed >> 4), dim=-1) | highest << 4
    return tile_blocks((*pack_five_bits(weights), blocks[..., :-20]), _TILE_BLOCKS)


def unpack_q5_0(data: torch.Tensor, count: int) -> torch.Tensor:
    """Undo `pack_block_of_five_bits` for Q5_0."""
    return _unpack_five_bits(data, count, 2)


def unpack_q5_1(data: torch.Tensor, count: int) -> torch.Tensor:
    """Undo `pack_block_of_five_bits` for Q5_1."""
    return _unpack_five_bits(data, count, 4)


def _unpack_five_bits(data: torch.Tensor, count: int, scale_bytes: int) -> torch.Tensor:
    nibbles, bits, scales = from_tiles(data, _TILE_BLOCKS, count, (16, 4, scale_bytes))
    weights = unpack_five_bits(nibbles, bits)
    shifts = torch.arange(8, dtype=torch.uint8, device=data.device)
    highest = (weights >> 4).view(*weights.shape[:-1], 4, 8) << shifts
    packed = weights[..., :16] & 15 | weights[..., 16:] << 4
    return torch.cat((scales, highest.sum(-1, dtype=torch.uint8), packed), dim=-1)


def pack_q8_0(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q8_0: the halves of each block, then the scales."""
    return tile_blocks((blocks[..., 2:18], blocks[..., 18:], blocks[..., :2]), _TILE_BLOCKS)


def unpack_q8_0(data: torch.Tensor, count: int) -> torch.Tensor:
    """Undo `pack_q8_0`."""
    first, last, scales = from_tiles(data, _TILE_BLOCKS, count, (16, 16, 2))
    return torch.cat((scales, first, last), dim=-1)
