"""Append new keys and values to the pages of a KV cache."""

from __future__ import annotations

import torch

from .hadamard import hadamard_reference
from .kv_pages import KVPages
from .quantize_kv_heads import quantize_heads_reference
from .quantized_kv_pages import QuantizedKVPages


def kv_append(
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
    Heads are rotated before they are quantised (see `hadamard`). If quantised keys have a bias,
    `positions` (tokens,) int64 are those it is rotated for.
    """
    kv_append_reference(key, value, key_pages, value_pages, slot_mapping, positions)


def kv_append_reference(
    key: torch.Tensor,
    value: torch.Tensor,
    key_pages: KVPages,
    value_pages: KVPages,
    slot_mapping: torch.Tensor,
    positions: torch.Tensor | None = None,
) -> None:
    """See `kv_append`."""
    for new, pages in ((key, key_pages), (value, value_pages)):
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
