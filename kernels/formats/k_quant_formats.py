"""The K types, whose super-blocks of 256 weights have quantised scales: Q4_K, Q5_K and Q6_K.

Each function takes whole blocks (blocks, bytes) uint8 and gives (blocks, 256) float32. Products
and differences round one after the other, as in gguf-py: no fused multiply-add anywhere. Layouts:
the block structs of ggml-common.h.
"""

from __future__ import annotations

import torch

from .block_formats import half_precision


def dequantize_q4_k(blocks: torch.Tensor) -> torch.Tensor:
    """Eight groups of 32; two of them share 32 bytes, the earlier in the low nibbles."""
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
    """Factors and subtrahends (blocks, 8, 1) of Q4_K and Q5_K, from a block's first 16 bytes.

    Of twelve packed bytes the first four hold the scales of groups 0 to 3, the next four their
    minima, in six bits each. The nibbles of the last four go on with groups 4 to 7, whose two
    highest bits are what the first eight bytes had left.
    """
    scale, minimum = half_precision(head[:, :2]), half_precision(head[:, 2:4])
    first, second, third = head[:, 4:8], head[:, 8:12], head[:, 12:]
    scales = torch.cat((first & 63, (third & 15) | ((first >> 2) & 48)), dim=1)
    minima = torch.cat((second & 63, (third >> 4) | ((second >> 2) & 48)), dim=1)
    return (scales.float().mul_(scale)[:, :, None], minima.float().mul_(minimum)[:, :, None])
