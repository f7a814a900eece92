"""One layer's queries, keys and values, as its projections return them."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class AttentionInput:
    """Heads that are still to be normalised, rotated, appended and attended with.

    `query` is (tokens, heads, head_size), `key` and `value` (tokens, kv_heads, head_size): maybe
    slices of one tensor, but the heads of a token are contiguous. Norms are the fp32 weights
    (head_size,) of the RMS norm of every head, which comes before RoPE. `cosine` and `sine`
    (tokens, pairs) fp32 are None for a layer without RoPE; see `rope`. `key_bias` (kv_heads,
    head_size) fp32 is still to be added to keys, before everything else: beside a bias of 150, a
    16-bit float would keep little of the rest of a key.
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
