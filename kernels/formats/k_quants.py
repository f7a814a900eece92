"""Codecs of the K-quants, super-blocks of 256 weights with quantised scales: Q4_K, Q5_K, Q6_K.

When dequantising, products and differences are rounded one after the other, as in gguf-py: no
fused multiply-add. File layouts: the block structs of ggml-common.h; the layouts of the kernels
are drawn in docs/kernels.md.
"""

from __future__ import annotations

import torch

from .block_quants import half_precision
from .weight_packing import from_tiles, pack_five_bits, tile_blocks, unpack_five_bits

# The 32 lanes of a warp take one group of 32 weights each: see csrc/gemv.cuh.
_TILE_BLOCKS = 4


def dequantize_q4_k(blocks: torch.Tensor) -> torch.Tensor:
    """Eight groups of 32; two share 32 bytes, the earlier in the low nibbles."""
    scales, minima = _scales_and_minima(blocks[:, :16])
    packed = blocks[:, 16:].reshape(-1, 4, 32)
    values = torch.stack((packed & 15, packed >> 4), dim=2).view(-1, 8, 32)
    return values.float().mul_(scales).sub_(minima).view(-1, 256)


def dequantize_q5_k(blocks: torch.Tensor) -> torch.Tensor:
    """As Q4_K, with a fifth bit: bit g of 32 bytes belongs to group g."""
    scales, minima = _scales_and_minima(blocks[:, :16])
    packed = blocks[:, 48:].reshape(-1, 4, 32)
    values = torch.stack((packed & 15, packed >> 4), dim=2).view(-1, 8, 32)
    shifts = torch.arange(8, dtype=torch.uint8, device=blocks.device)
    fifth = (blocks[:, None, 16:48] >> shifts[:, None]) & 1
    return (values | fifth << 4).float().mul_(scales).sub_(minima).view(-1, 256)


def dequantize_q6_k(blocks: torch.Tensor) -> torch.Tensor:
    """Two halves of 128 weights, each of 64 bytes of low and 32 bytes of high bits.

    Sixteen weights share a signed byte of a scale; 32 means zero.
    """
    low = blocks[:, :128].reshape(-1, 2, 64)
    low = torch.stack((low & 15, low >> 4), dim=2).view(-1, 2, 4, 32)
    shifts = torch.tensor((0, 2, 4, 6), dtype=torch.uint8, device=blocks.device)
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts[:, None]) & 3
    scales = blocks[:, 192:208].view(torch.int8).float().mul_(half_precision(blocks[:, 208:]))
    values = (low | high << 4).view(-1, 16, 16).float().sub_(32)
    return values.mul_(scales[:, :, None]).view(-1, 256)


def _scales_and_minima(head: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and minima (blocks, 8, 1) of Q4_K and Q5_K, from a block's first 16 bytes.

    Of twelve packed bytes the first four hold the scales of groups 0 to 3 and the next four their
    minima, in six bits each. The nibbles of the last four belong to groups 4 to 7, whose two
    highest bits are in the unused bits of the first eight bytes.
    """
    scale, minimum = half_precision(head[:, :2]), half_precision(head[:, 2:4])
    first, second, third = head[:, 4:8], head[:, 8:12], head[:, 12:]
    scales = torch.cat((first & 63, (third & 15) | ((first >> 2) & 48)), dim=1)
    minima = torch.cat((second & 63, (third >> 4) | ((second >> 2) & 48)), dim=1)
    return (scales.float().mul_(scale)[:, :, None], minima.float().mul_(minimum)[:, :, None])


def pack_q4_k(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q4_K: nibbles by group, then the scales."""
    rows, count, _ = blocks.shape
    packed = blocks[..., 16:].reshape(rows, count, 4, 32)
    weights = torch.stack((packed & 15, packed >> 4), dim=3).view(rows, count, 8, 2, 16)
    nibbles = (weights[..., 0, :] | weights[..., 1, :] << 4).reshape(rows, count, 128)
    header = torch.cat((blocks[..., :4], _pack_scales(blocks[..., 4:16])), dim=-1)
    return tile_blocks((nibbles, header), _TILE_BLOCKS)


def unpack_q4_k(data: torch.Tensor, count: int) -> torch.Tensor:
    """Undo `pack_q4_k`."""
    nibbles, header = from_tiles(data, _TILE_BLOCKS, count, (128, 16))
    rows = len(data)
    halves = nibbles.view(rows, count, 8, 16)
    weights = torch.cat((halves & 15, halves >> 4), dim=-1).view(rows, count, 4, 2, 32)
    packed = (weights[..., 0, :] | weights[..., 1, :] << 4).reshape(rows, count, 128)
    return torch.cat((header[..., :4], _unpack_scales(header[..., 4:]), packed), dim=-1)


def pack_q5_k(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q5_K: nibbles by group, fifth bits, then the scales."""
    rows, count, _ = blocks.shape
    packed = blocks[..., 48:].reshape(rows, count, 4, 32)
    low = torch.stack((packed & 15, packed >> 4), dim=3).view(rows, count, 8, 32)
    shifts = torch.arange(8, dtype=torch.uint8, device=blocks.device)
    highest = blocks[..., None, 16:48] >> shifts[:, None] & 1
    nibbles, bits = pack_five_bits(low | highest << 4)
    header = torch.cat((blocks[..., :4], _pack_scales(blocks[..., 4:16])), dim=-1)
    return tile_blocks((nibbles.flatten(2), bits.flatten(2), header), _TILE_BLOCKS)


def unpack_q5_k(data: torch.Tensor, count: int) -> torch.Tensor:
    """Undo `pack_q5_k`."""
    rows = len(data)
    nibbles, bits, header = from_tiles(data, _TILE_BLOCKS, count, (128, 32, 16))
    shape = (rows, count, 8, -1)
    weights = unpack_five_bits(nibbles.reshape(shape), bits.reshape(shape))
    shifts = torch.arange(8, dtype=torch.uint8, device=data.device)
    highest = (weights >> 4 << shifts[:, None]).sum(2, dtype=torch.uint8)
    pairs = weights.view(rows, count, 4, 2, 32)
    packed = (pairs[..., 0, :] & 15 | pairs[..., 1, :] << 4).reshape(rows, count, 128)
    scales = _unpack_scales(header[..., 4:])
    return torch.cat((header[..., :4], scales, highest, packed), dim=-1)


def _pack_scales(scales: torch.Tensor) -> torch.Tensor:
    """ggml's twelve bytes of scales, with the scale and minimum of group g at bit 12 g."""
    first, second, third = scales[..., :4], scales[..., 4:8], scales[..., 8:]
    scale = torch.cat((first & 63, third & 15 | first >> 2 & 48), dim=-1)
    minimum = torch.cat((second & 63, third >> 4 | second >> 2 & 48), dim=-1)
    shape = (*scale.shape[:-1], 4, 2)
    (s0, s1), (m0, m1) = scale.view(shape).unbind(-1), minimum.view(shape).unbind(-1)
    pairs = (s0 | m0 << 6, m0 >> 2 | s1 << 4, s1 >> 4 | m1 << 2)
    return torch.stack(pairs, dim=-1).flatten(-2)


def _unpack_scales(fields: torch.Tensor) -> torch.Tensor:
    low, middle, high = fields.reshape(*fields.shape[:-1], 4, 3).unbind(-1)
    scale = torch.stack((low & 63, middle >> 4 | high << 4 & 48), dim=-1).flatten(-2)
    minimum = torch.stack((low >> 6 | middle << 2 & 60, high >> 2), dim=-1).flatten(-2)
    first = scale[..., :4] | scale[..., 4:] >> 4 << 6
    second = minimum[..., :4] | minimum[..., 4:] >> 4 << 6
    third = scale[..., 4:] & 15 | minimum[..., 4:] << 4
    return torch.cat((first, second, third), dim=-1)


def pack_q6_k(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q6_K: nibbles by group, the upper two bits, the scales, then the block scales."""
    rows, count, _ = blocks.shape
    low = blocks[..., :128].reshape(rows, count, 2, 64)
    low = torch.stack((low & 15, low >> 4), dim=3).view(rows, count, 2, 4, 32)
    shifts = torch.tensor((0, 2, 4, 6), dtype=torch.uint8, device=blocks.device)
    high = blocks[..., 128:192].reshape(rows, count, 2, 1, 32) >> shifts[:, None] & 3
    first, last = (low | high << 4).view(rows, count, 8, 2, 16).unbind(3)
    last = last ^ 32
    nibbles = first & 15 | last >> 2 << 4
    # Two bits of each of 32 weights, in two words; csrc/q6_k.cuh describes their order.
    x, y = ((part & 3).view(rows, count, 8, 2, 2, 4) for part in (first >> 4, last))
    bits = x[..., 1, :] | y[..., 0, :] << 2 | x[..., 0, :] << 4 | y[..., 1, :].roll(-1, -1) << 6
    tiles = tile_blocks((nibbles.flatten(2), bits.flatten(2), blocks[..., 192:208]), _TILE_BLOCKS)
    return torch.cat((tiles, blocks[..., 208:].flatten(1)), dim=1)


def unpack_q6_k(data: torch.Tensor, count: int) -> torch.Tensor:
    """Undo `pack_q6_k`."""
    rows = len(data)
    nibbles, bits, scales = from_tiles(data, _TILE_BLOCKS, count, (128, 64, 16))
    d = data[:, count * 208 : count * 210].reshape(rows, count, 2)
    nibbles = nibbles.reshape(rows, count, 8, 16)
    bits = bits.reshape(rows, count, 8, 2, 4)
    x = torch.stack((bits >> 4 & 3, bits & 3), dim=-2).view(rows, count, 8, 16)
    y = torch.stack((bits >> 2 & 3, (bits >> 6).roll(1, -1)), dim=-2).view(rows, count, 8, 16)
    first, last = nibbles & 15 | x << 4, (nibbles >> 4 << 2 | y) ^ 32
    weights = torch.stack((first, last), dim=3).view(rows, count, 2, 4, 32)
    low = (weights[..., :2, :] & 15 | weights[..., 2:, :] << 4).reshape(rows, count, 128)
    shifts = torch.tensor((0, 2, 4, 6), dtype=torch.uint8, device=data.device)
    high = (weights >> 4 << shifts[:, None]).sum(3, dtype=torch.uint8).view(rows, count, 64)
    return torch.cat((low, high, scales, d), dim=-1)
