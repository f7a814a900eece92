"""Append keys and values to the pages of a KV cache: rotate heads, quantise them, store them."""

from __future__ import annotations

import torch

from .kv_page_format import KVPageFormat, block_size
from .kv_pages import KVPages, QuantizedKVPages


def hadamard_reference(heads: torch.Tensor) -> torch.Tensor:
    """Rotate `heads` (..., head_size) to float32; the rotation is its own inverse.

    The matrix is symmetric and orthonormal, so that products of rotated queries with rotated keys
    equal those of the unrotated ones. It is a Hadamard matrix (Sylvester's: entry i, j is positive
    if `i & j` has an even number of ones) for each block of a head; see `block_size`.

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


def kv_append_reference(
    key: torch.Tensor,
    value: torch.Tensor,
    key_pages: KVPages,
    value_pages: KVPages,
    slot_mapping: torch.Tensor,
    positions: torch.Tensor | None = None,
) -> None:
    """Store `key` and `value` (tokens, kv_heads, head_size) at their slots, in the pages' format.

    Pages are (num_pages, page_size, kv_heads, head_size); slot s of `slot_mapping` (tokens,) int64
    is place s % page_size of page s // page_size. Padding is mapped to a page that is never read.
    Values without heads are parts of the keys, and not stored.
    Heads are rotated before they are quantised. If quantised keys have a bias, `positions`
    (tokens,) int64 are those it is rotated for.
    """
    both = ((key, key_pages), (value, value_pages))
    for new, pages in both if value.shape[1] else both[:1]:
        if isinstance(pages, QuantizedKVPages):
            if pages.bias is not None:
                assert positions is not None
                new = new.float() - pages.bias.at(positions)
            codes, scales = quantize_heads_reference(hadamard_reference(new), pages.format)
            _store(codes, pages.codes, slot_mapping)
            _store(scales, pages.scales, slot_mapping)
        else:
            _store(new.to(pages.dtype), pages, slot_mapping)


def _store(new: torch.Tensor, plane: torch.Tensor, slot_mapping: torch.Tensor) -> None:
    plane.view(-1, *plane.shape[2:]).index_copy_(0, slot_mapping, new)
