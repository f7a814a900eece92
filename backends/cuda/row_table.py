"""Which rows of states the sequences of a step read and write, on the device."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from ingle.kernels.recurrent.pooled_states import StepRows

from ..engine.batch import StateStep
from .sampling.upload import pinned


class RowTable:
    """For kernels, at addresses that never change; sent in one copy when it changes."""

    def __init__(self, *, sequences: int, writes: int, device: torch.device) -> None:
        """Room for so many sequences and writes in a step."""
        self._device = device
        self._ends = np.cumsum((sequences, sequences + 1, writes))
        self._numbers = np.zeros(2 * sequences + 1 + 2 * writes, np.int32)
        self._table = torch.zeros(len(self._numbers), dtype=torch.int32, device=device)
        self.fill([])

    def fill(self, steps: Sequence[StateStep]) -> None:
        """Send the rows of a step's sequences; others read none and write none."""
        numbers = np.zeros_like(self._numbers)
        reads, write_starts, tokens, rows = np.split(numbers, self._ends)
        reads[:] = -1
        writes = 0
        for place, step in enumerate(steps):
            if step.read is not None:
                reads[place] = step.read
            for after, row in step.writes:
                tokens[writes], rows[writes] = after, row
                writes += 1
            write_starts[place + 1 :] = writes
        if not np.array_equal(numbers, self._numbers):
            self._numbers = numbers
            self._send()

    @contextmanager
    def read_only(self) -> Generator[None]:
        """No step within writes states, so that it can be computed again."""
        first, end = self._ends[:2]
        self._table[first:end].zero_()
        try:
            yield
        finally:
            self._send()

    def rows(self, starts: torch.Tensor) -> StepRows:
        """The rows of the step whose sequences have the tokens between `starts`."""
        count = len(starts) - 1
        reads, write_starts, tokens, rows = self._table.tensor_split(self._ends.tolist())
        return StepRows(starts, reads[:count], write_starts[: count + 1], tokens, rows)

    def _send(self) -> None:
        self._table.copy_(pinned(self._numbers, self._device), non_blocking=True)
