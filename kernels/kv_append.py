"""Writing new keys and values into the pages of a KV cache."""

from __future__ import annotations

import torch


def kv_append_reference(
    key: torch.Tensor,
    value: torch.Tensor,
    key_pages: torch.Tensor,
    value_pages: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """See `kv_append`."""
    for new, pages in ((key, key_pages), (value, value_pages)):
        slots = pages.view(-1, *pages.shape[2:])
        slots.index_copy_(0, slot_mapping, new.to(pages.dtype))


def kv_append(
    key: torch.Tensor,
    value: torch.Tensor,
    key_pages: torch.Tensor,
    value_pages: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Store `key` and `value` (tokens, kv_heads, head_size) at their slots, in the pages' type.

    Pages are (num_pages, page_size, kv_heads, head_size); slot s of `slot_mapping` (tokens,) int64
    is place s % page_size of page s // page_size. Padding is mapped to a page that nobody reads.
    """
    kv_append_reference(key, value, key_pages, value_pages, slot_mapping)
