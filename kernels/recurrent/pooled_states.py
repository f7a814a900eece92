"""Where the sequences of a step have their recurrent states."""

from __future__ import annotations

from typing import NamedTuple

import torch


class StepRows(NamedTuple):
    """The rows of a pool that a step's sequences read and write; all int32, on the device.

    Sequence i has tokens `starts[i]` to `starts[i + 1]`, and begins with the states of row
    `reads[i]`, or with zeros if that is negative. After `write_tokens[j]` of its tokens they are
    written to `write_rows[j]`, for j from `write_starts[i]` to `write_starts[i + 1]`, in ascending
    order. A sequence without tokens writes nothing.
    """

    starts: torch.Tensor
    reads: torch.Tensor
    write_starts: torch.Tensor
    write_tokens: torch.Tensor
    write_rows: torch.Tensor


class PooledStates(NamedTuple):
    """The states of one layer, each (rows, ...) fp32, and what the step does with their rows."""

    states: tuple[torch.Tensor, ...]
    steps: StepRows
