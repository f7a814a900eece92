"""The metadata of a step's attention: sequences, slots, block tables, context lengths."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class AttentionMetadata:
    """The metadata that all layers of a step share; tensors are on the device.

    `positions` and `slot_mapping` are (tokens,) int64, `block_tables` (sequences, max_pages) int32,
    `context_lengths` (sequences,) int32 including the step's own tokens, `query_starts` (sequences
    + 1,) int32. Two bounds known to the host choose kernels and their grids: `longest_query` is at
    least the most tokens that a sequence has in the step, and `longest_context` the longest
    context.
    """

    positions: torch.Tensor
    slot_mapping: torch.Tensor
    block_tables: torch.Tensor
    context_lengths: torch.Tensor
    query_starts: torch.Tensor
    longest_query: int
    longest_context: int
