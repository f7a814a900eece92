"""One layer's queries, keys and values as its projections leave them."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class AttentionInput:
    """What is still to be normalised, rotated, stored and attended to.

    `query` is (tokens, heads, head_size), `key` and `value` (tokens, kv_heads, head_size): maybe
    parts of the rows of one tensor, but each head's elements lie together, and its heads. Norms
    are the fp32 weights (head_size,) by which every head is brought to length, before it rotates.
    `cosine` and `sine` (tokens, pairs) fp32 are None where a layer does not rotate; see `rope`.
    `key_bias` (kv_heads, head_size) fp32 is still to be added to keys, before all else: beside a
    bias of 150, a number of 16 bits would keep little of what a text adds to it.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    query_norm: torch.Tensor | None = None
    key_norm: torch.Tensor | None = None
    epsilon: float = 0.0
    cosine: torch.Tensor | None = None
    sine: torch.Tensor | None = None
    key_bias: torch.Tensor | None = None
