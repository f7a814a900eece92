"""Quantise heads to codes and scales, and dequantise them."""

from __future__ import annotations

import torch

from .kv_page_format import KVPageFormat

_LARGEST_SCALE = torch.finfo(torch.float16).max


def quantize_heads_reference(
    heads: torch.Tensor, form: KVPageFormat
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales, see `QuantizedKVPages`, of rotated `heads` (..., head_size).

    An element times the reciprocal of its stored scale is rounded to the nearest integer, ties to
    even: equal on every device.
    """
    blocks = heads.float().view(*heads.shape[:-1], form.blocks, form.block_size)
    if form.bits == 8:
        scales = _stored(blocks.abs().amax(-1, keepdim=True) * (1 / 127))
        codes = _codes(blocks, scales, -127, 127).to(torch.int8).flatten(-2)
    else:
        scales = _stored(_largest(blocks) * -0.125)
        low, high = (_codes(blocks, scales, -8, 7) + 8).to(torch.uint8).flatten(-2).chunk(2, -1)
        codes = low | (high << 4)
    return codes, scales.squeeze(-1)


def dequantize_heads_reference(
    codes: torch.Tensor, scales: torch.Tensor, form: KVPageFormat
) -> torch.Tensor:
    """The rotated heads (..., head_size), in float32."""
    if form.bits == 4:
        codes = torch.cat((codes & 15, codes >> 4), -1).to(torch.int8) - 8
    blocks = codes.float().view(*codes.shape[:-1], form.blocks, form.block_size)
    return (blocks * scales.float().unsqueeze(-1)).flatten(-2)


def _largest(blocks: torch.Tensor) -> torch.Tensor:
    """The element of each block with the largest magnitude, with its sign.

    It becomes the code -8, which has no positive counterpart, so that the range is used fully.
    """
    least, most = blocks.amin(-1, keepdim=True), blocks.amax(-1, keepdim=True)
    return torch.where(-least > most, least, most)


def _stored(scales: torch.Tensor) -> torch.Tensor:
    return scales.clamp(-_LARGEST_SCALE, _LARGEST_SCALE).half()


def _codes(blocks: torch.Tensor, scales: torch.Tensor, least: int, most: int) -> torch.Tensor:
    stored = scales.float()
    inverse = torch.where(stored == 0, 0.0, stored.reciprocal())
    return (blocks * inverse).round_().clamp_(least, most)
