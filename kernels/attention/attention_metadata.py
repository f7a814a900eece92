"""Which tokens of a step belong to whom, and where their keys and values lie."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class AttentionMetadata:
    """What all layers of a step have in common; tensors are on the device.

    `positions` and `slot_mapping` are (tokens,) int64, `block_tables` (sequences, max_pages) int32,
    `context_lengths` (sequences,) int32 with the step's own tokens, `query_starts`
    (sequences + 1,) int32. The host knows two bounds, which choose kernels and their grids:
    `longest_query` is at least the most tokens that a sequence has in the step, and
    `longest_context` the longest context.
    """

    positions: torch.Tensor
    slot_mapping: torch.Tensor
    block_tables: torch.Tensor
    context_lengths: torch.Tensor
    query_starts: torch.Tensor
    longest_query: int
    longest_context: int
