"""The inputs of attention: queries, keys and values of a layer, and the metadata of a step."""

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
    16-bit float would keep little of the rest of a key. `sinks` (heads,) fp32 are scores that take
    their share of each softmax, and have no value. The output is dense if something else than a
    linear layer reads it: `wants_dense`.
    A `value` (tokens, 0, size) stands for the last `size` elements of keys, after all this.
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
    sinks: torch.Tensor | None = None
    wants_dense: bool = False


@dataclass(frozen=True, eq=False)
class AttentionMetadata:
    """The metadata that all layers of a step share; tensors are on the device.

    `positions` and `slot_mapping` are (tokens,) int64, `block_tables` (sequences, max_pages) int32,
    `context_lengths` (sequences,) int32 including the step's own tokens, `query_starts` (sequences
    + 1,) int32. Two bounds known to the host choose kernels and their grids: `longest_query` is at
    least the most tokens that a sequence has in the step, and `longest_context` the longest
    context. With `last_seen` (tokens,) int64, the last position in its sequence that a token sees,
    attention is not causal: those of a picture see each other.
    """

    positions: torch.Tensor
    slot_mapping: torch.Tensor
    block_tables: torch.Tensor
    context_lengths: torch.Tensor
    query_starts: torch.Tensor
    longest_query: int
    longest_context: int
    last_seen: torch.Tensor | None = None
