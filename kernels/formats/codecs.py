"""Codecs of the weight formats that are blocks: dequantise blocks, and repack them for the kernels.

Dequantising has the roundings of gguf-py: products and differences are rounded one after the
other, without fused multiply-add. File layouts: the block structs of ggml-common.h; the layouts of
the kernels are drawn in docs/kernels.md, and csrc/weight_group.cuh describes how they are unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch

# The 32 lanes of a warp take one group of 32 weights each: see csrc/gemv.cuh.
_TILE_BLOCKS, _TILE_SUPER_BLOCKS = 32, 4


def tile_blocks(parts: tuple[torch.Tensor, ...], blocks: int) -> torch.Tensor:
    """Parts (rows, count, bytes) as rows of bytes: tiles of `blocks` blocks, the last one shorter.

    A tile holds the first part of each of its blocks, then the second part of each, and so on.
    """
    rows, count, _ = parts[0].shape
    tiles = count // blocks
    whole = [
        part[:, : tiles * blocks].reshape(rows, tiles, blocks * part.shape[2]) for part in parts
    ]
    rest = [part[:, tiles * blocks :].flatten(1) for part in parts]
    return torch.cat((torch.cat(whole, dim=2).flatten(1), *rest), dim=1)


def _pack_five_bits(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`weights` (..., 32) uint8 below 32 as nibbles (..., 16) and fifth bits (..., 4)."""
    first, last = weights[..., :16], weights[..., 16:]
    nibbles = first & 15 | last >> 1 << 4
    words = (*weights.shape[:-1], 4, 4)
    f0, f1, f2, f3 = (first >> 4).reshape(words).unbind(-2)
    l0, l1, l2, l3 = (last & 1).reshape(words).unbind(-2)
    low = f3 | l1 << 1 | f1 << 2 | l0 << 3
    return nibbles, low | f0 << 4 | l2 << 5 | f2 << 6 | l3.roll(-1, -1) << 7


def _floats(raw: torch.Tensor, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """Little-endian floats (n, bytes) uint8 of `dtype` as float32."""
    # A copy, because a view would ask for an even storage offset.
    return raw.clone(memory_format=torch.contiguous_format).view(dtype).float()


def _shifts(blocks: torch.Tensor, *bits: int) -> torch.Tensor:
    return torch.tensor(bits, dtype=torch.uint8, device=blocks.device)


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    """The low nibbles (..., n) of bytes, then the high ones: (..., 2 n)."""
    return torch.cat((packed & 15, packed >> 4), dim=-1)


def _five_bit_codes(blocks: torch.Tensor) -> torch.Tensor:
    """The weights (..., 32) of Q5_0 or Q5_1: their highest bits, then nibbles, end the block."""
    highest = blocks[..., -20:-16, None] >> _shifts(blocks, *range(8)) & 1
    return _nibbles(blocks[..., -16:]) | highest.flatten(-2) << 4


def _dequantize_q8_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale, then 32 signed bytes."""
    return blocks[:, 2:].view(torch.int8).float().mul_(_floats(blocks[:, :2]))


def _dequantize_q4_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale, then nibbles: the low ones are the first 16 weights; 8 means zero."""
    return _nibbles(blocks[:, 2:]).float().sub_(8).mul_(_floats(blocks[:, :2]))


def _dequantize_q4_1(blocks: torch.Tensor) -> torch.Tensor:
    """A scale and a minimum, then nibbles."""
    scale, minimum = _floats(blocks[:, :2]), _floats(blocks[:, 2:4])
    return _nibbles(blocks[:, 4:]).float().mul_(scale).add_(minimum)


def _dequantize_q5_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale, the 32 highest bits, then nibbles; 16 means zero."""
    return _five_bit_codes(blocks).float().sub_(16).mul_(_floats(blocks[:, :2]))


def _dequantize_q5_1(blocks: torch.Tensor) -> torch.Tensor:
    """A scale and a minimum, the 32 highest bits, then nibbles."""
    scale, minimum = _floats(blocks[:, :2]), _floats(blocks[:, 2:4])
    return _five_bit_codes(blocks).float().mul_(scale).add_(minimum)


def _pack_four_bits(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q4_0 or Q4_1, whose nibbles are in the right order already."""
    return tile_blocks((blocks[..., -16:], blocks[..., :-16]), _TILE_BLOCKS)


def _pack_q5(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q5_0 or Q5_1: nibbles, fifth bits, then the scales."""
    nibbles, bits = _pack_five_bits(_five_bit_codes(blocks))
    return tile_blocks((nibbles, bits, blocks[..., :-20]), _TILE_BLOCKS)


def _pack_q8_0(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q8_0: the halves of each block, then the scales."""
    return tile_blocks((blocks[..., 2:18], blocks[..., 18:], blocks[..., :2]), _TILE_BLOCKS)


def _group_nibbles(packed: torch.Tensor) -> torch.Tensor:
    """Eight groups of 32 (..., 8, 32); two share 32 bytes, the earlier in the low nibbles."""
    pairs = torch.unflatten(packed, -1, (4, 32))
    return torch.stack((pairs & 15, pairs >> 4), dim=-2).flatten(-3, -2)


def _q4_k_codes(blocks: torch.Tensor) -> torch.Tensor:
    return _group_nibbles(blocks[..., 16:])


def _q5_k_codes(blocks: torch.Tensor) -> torch.Tensor:
    """As Q4_K, with a fifth bit: bit g of 32 bytes belongs to group g."""
    fifth = blocks[..., None, 16:48] >> _shifts(blocks, *range(8))[:, None] & 1
    return _group_nibbles(blocks[..., 48:]) | fifth << 4


def _q6_k_codes(blocks: torch.Tensor) -> torch.Tensor:
    """Weights (..., 2, 4, 32): halves of 128, each of 64 bytes of low and 32 of high bits."""
    low = torch.unflatten(blocks[..., :128], -1, (2, 64))
    low = torch.unflatten(torch.stack((low & 15, low >> 4), dim=-2).flatten(-2), -1, (4, 32))
    high = torch.unflatten(blocks[..., 128:192], -1, (2, 1, 32))
    high = high >> _shifts(blocks, 0, 2, 4, 6)[:, None]
    return low | (high & 3) << 4


def _scale_codes(packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The six-bit scales and minima (..., 8) of Q4_K and Q5_K, from twelve bytes.

    The first four bytes hold the scales of groups 0 to 3 and the next four their minima. The
    nibbles of the last four belong to groups 4 to 7, whose two highest bits are in the unused bits
    of the first eight bytes.
    """
    first, second, third = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = torch.cat((first & 63, third & 15 | first >> 2 & 48), dim=-1)
    return scales, torch.cat((second & 63, third >> 4 | second >> 2 & 48), dim=-1)


def _dequantize_groups(blocks: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Groups (n, 8, 32) of Q4_K or Q5_K by the scales and minima in a block's first 16 bytes."""
    scale, minimum = _floats(blocks[:, :2]), _floats(blocks[:, 2:4])
    scales, minima = _scale_codes(blocks[:, 4:16])
    scales, minima = scales.float().mul_(scale), minima.float().mul_(minimum)
    return codes.float().mul_(scales[:, :, None]).sub_(minima[:, :, None]).view(-1, 256)


def _dequantize_q4_k(blocks: torch.Tensor) -> torch.Tensor:
    return _dequantize_groups(blocks, _q4_k_codes(blocks))


def _dequantize_q5_k(blocks: torch.Tensor) -> torch.Tensor:
    return _dequantize_groups(blocks, _q5_k_codes(blocks))


def _dequantize_q6_k(blocks: torch.Tensor) -> torch.Tensor:
    """Sixteen weights share a signed byte of a scale; 32 means zero."""
    scales = blocks[:, 192:208].view(torch.int8).float().mul_(_floats(blocks[:, 208:]))
    values = _q6_k_codes(blocks).view(-1, 16, 16).float().sub_(32)
    return values.mul_(scales[:, :, None]).view(-1, 256)


def _pack_header(blocks: torch.Tensor) -> torch.Tensor:
    """Scale and minimum of a block, then its twelve bytes with those of group g at bit 12 g."""
    scales, minima = (torch.unflatten(each, -1, (4, 2)) for each in _scale_codes(blocks[..., 4:16]))
    (s0, s1), (m0, m1) = scales.unbind(-1), minima.unbind(-1)
    pairs = (s0 | m0 << 6, m0 >> 2 | s1 << 4, s1 >> 4 | m1 << 2)
    return torch.cat((blocks[..., :4], torch.stack(pairs, dim=-1).flatten(-2)), dim=-1)


def _pack_q4_k(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q4_K: nibbles by group, then the scales."""
    first, last = torch.unflatten(_q4_k_codes(blocks), -1, (2, 16)).unbind(-2)
    nibbles = (first | last << 4).flatten(2)
    return tile_blocks((nibbles, _pack_header(blocks)), _TILE_SUPER_BLOCKS)


def _pack_q5_k(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q5_K: nibbles by group, fifth bits, then the scales."""
    nibbles, bits = (each.flatten(2) for each in _pack_five_bits(_q5_k_codes(blocks)))
    return tile_blocks((nibbles, bits, _pack_header(blocks)), _TILE_SUPER_BLOCKS)


def _pack_q6_k(blocks: torch.Tensor) -> torch.Tensor:
    """Pack Q6_K: nibbles by group, the upper two bits, the scales, then the block scales."""
    rows, count, _ = blocks.shape
    first, last = _q6_k_codes(blocks).view(rows, count, 8, 2, 16).unbind(3)
    last = last ^ 32
    nibbles = first & 15 | last >> 2 << 4
    # Two bits of each of 32 weights, in two words; csrc/q6_k.cuh describes their order.
    x, y = ((part & 3).view(rows, count, 8, 2, 2, 4) for part in (first >> 4, last))
    bits = x[..., 1, :] | y[..., 0, :] << 2 | x[..., 0, :] << 4 | y[..., 1, :].roll(-1, -1) << 6
    parts = nibbles.flatten(2), bits.flatten(2), blocks[..., 192:208]
    return torch.cat((tile_blocks(parts, _TILE_SUPER_BLOCKS), blocks[..., 208:].flatten(1)), dim=1)


Convert = Callable[[torch.Tensor], torch.Tensor]

DOUBLED_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the values of four-bit floats, by their bits."""


def _dequantize_mxfp4(blocks: torch.Tensor) -> torch.Tensor:
    """The exponent of a scale, then nibbles: the low ones are the first 16 weights."""
    exponent = blocks[:, :1].int()
    # Half the scale, since values are doubled; the two smallest halves are subnormal.
    bits = torch.where(exponent < 2, 0x00200000 << exponent, (exponent - 1) << 23)
    values = torch.tensor(DOUBLED_E2M1, dtype=torch.float32, device=blocks.device)
    return values[_nibbles(blocks[:, 1:]).int()].mul_(bits.view(torch.float32))


def _pack_mxfp4(blocks: torch.Tensor) -> torch.Tensor:
    """Pack MXFP4: codes one after the other, the first in the low nibbles, then the exponents."""
    even, odd = torch.unflatten(_nibbles(blocks[..., 1:]), -1, (16, 2)).unbind(-1)
    return tile_blocks((even | odd << 4, blocks[..., :1]), _TILE_BLOCKS)


def _dequantize_g4(blocks: torch.Tensor) -> torch.Tensor:
    """Nibbles as in Q4_0 for each 32 weights, then a scale whose last byte is the code of zero."""
    words = blocks[:, -4:].clone(memory_format=torch.contiguous_format)
    zero = words[:, :1].float()
    words[:, 0] = 0
    codes = _nibbles(torch.unflatten(blocks[:, :-4], 1, (-1, 16))).flatten(1)
    return codes.float().sub_(zero).mul_(words.view(torch.float32))


def _pack_g4(blocks: torch.Tensor) -> torch.Tensor:
    """Pack groups of 32, 64 or 128: nibbles, then the words with their scales."""
    tile = 32 * 32 // (2 * (blocks.shape[-1] - 4))
    return tile_blocks((blocks[..., :-4], blocks[..., -4:]), tile)


DEQUANTIZERS: Mapping[str, Convert] = {
    "F32": partial(_floats, dtype=torch.float32),
    "F16": _floats,
    "BF16": partial(_floats, dtype=torch.bfloat16),
    "Q4_0": _dequantize_q4_0,
    "Q4_1": _dequantize_q4_1,
    "Q5_0": _dequantize_q5_0,
    "Q5_1": _dequantize_q5_1,
    "Q8_0": _dequantize_q8_0,
    "Q4_K": _dequantize_q4_k,
    "Q5_K": _dequantize_q5_k,
    "Q6_K": _dequantize_q6_k,
    "MXFP4": _dequantize_mxfp4,
    "G4_32": _dequantize_g4,
    "G4_64": _dequantize_g4,
    "G4_128": _dequantize_g4,
}
"""By format: from blocks (blocks, bytes) uint8 to weights (blocks, elements) float32."""

PACKERS: Mapping[str, Convert] = {
    "Q4_0": _pack_four_bits,
    "Q4_1": _pack_four_bits,
    "Q5_0": _pack_q5,
    "Q5_1": _pack_q5,
    "Q8_0": _pack_q8_0,
    "Q4_K": _pack_q4_k,
    "Q5_K": _pack_q5_k,
    "Q6_K": _pack_q6_k,
    "MXFP4": _pack_mxfp4,
    "G4_32": _pack_g4,
    "G4_64": _pack_g4,
    "G4_128": _pack_g4,
}
"""By format: from rows of blocks (rows, blocks, bytes) uint8 to rows of the kernels' bytes."""
