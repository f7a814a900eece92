"""What is added to single logits before anything is drawn: bias, penalties, DRY."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...engine.batch import ScheduledChunk
from .dry_penalties import DryPenalties
from .sampling_state import SamplingState

Numbers = float | NDArray[np.floating[Any]]
Upload = Callable[[NDArray[np.generic]], torch.Tensor]


class _Entries:
    """Three numbers each for single tokens of single rows; rows come in order."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._tokens: list[NDArray[np.int32]] = []
        self._values: list[NDArray[np.float32]] = []

    def add(self, row: int, tokens: NDArray[np.int32], *numbers: Numbers) -> None:
        """Numbers, each for all `tokens` or one for each; those that miss are zero."""
        if len(tokens):
            values = np.zeros((len(tokens), 3), np.float32)
            for column, number in enumerate(numbers):
                values[:, column] = number
            self._rows.append(row)
            self._tokens.append(tokens)
            self._values.append(values)

    def add_values(self, row: int, values: Mapping[int, float]) -> None:
        """Values by token, which are the first numbers."""
        tokens = np.fromiter(values, np.int32, len(values))
        self.add(row, tokens, np.fromiter(values.values(), np.float64, len(values)))

    @property
    def are_none(self) -> bool:
        """Whether there are none."""
        return not self._rows

    @property
    def counts(self) -> list[int]:
        """How many each of the rows that have some has."""
        return [len(tokens) for tokens in self._tokens]

    def offsets(self, rows: int) -> NDArray[np.int64]:
        """Where each row's entries begin, and where the last one's end."""
        offsets = np.zeros(rows + 1, np.int64)
        offsets[np.asarray(self._rows, np.int64) + 1] = self.counts
        return offsets.cumsum()

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens (n) and values (n, 3)."""
        if self.are_none:
            return np.empty(0, np.int32), np.empty((0, 3), np.float32)
        return np.concatenate(self._tokens), np.concatenate(self._values)

    def upload(self, upload: Upload) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Places (2, n) and numbers (3, n) float32; None where there are none."""
        if self.are_none:
            return None
        tokens, values = self.arrays()
        places = np.stack((np.repeat(self._rows, self.counts), tokens))
        return upload(places), upload(np.ascontiguousarray(values.T))


class Adjustments:
    """The changes to the logits of one batch, gathered on the host."""

    def __init__(
        self, chunks: list[ScheduledChunk], states: list[SamplingState], dry: DryPenalties
    ) -> None:
        self._bias, self._penalties, self._dry = self._kinds = _Entries(), _Entries(), _Entries()
        self._count = 0
        self._awaited: dict[int, tuple[int, float, float]] = {}
        for chunk, state in zip(chunks, states, strict=True):
            if state.adjusts:
                for count in range(1 + len(chunk.drafts)):
                    self._add(self._count + count, chunk, state, chunk.drafts[:count], dry)
            self._count += 1 + len(chunk.drafts)

    @property
    def are_none(self) -> bool:
        """Whether nothing changes."""
        return not self._awaited and all(each.are_none for each in self._kinds)

    @property
    def await_tokens(self) -> bool:
        """Whether some rows have penalties for a token that only the device knows."""
        return bool(self._awaited)

    def tables(self) -> list[NDArray[np.int32] | NDArray[np.float32]]:
        """Offsets, tokens and values of `LogitEntries`; with `await_tokens` two tables more."""
        arrays = [each.arrays() for each in self._kinds]
        begins = np.cumsum([0, *(len(tokens) for tokens, _ in arrays)])[:-1, None]
        offsets = np.stack([each.offsets(self._count) for each in self._kinds]) + begins
        tokens = np.concatenate([tokens for tokens, _ in arrays])
        values = np.concatenate([values for _, values in arrays])
        tables: list[NDArray[np.int32] | NDArray[np.float32]]
        tables = [offsets.astype(np.int32), tokens, values]
        if self._awaited:
            awaited, first = np.full(self._count, -1, np.int32), np.zeros((self._count, 2))
            for row, (place, *numbers) in self._awaited.items():
                awaited[row], first[row] = place, numbers
            tables += [awaited, first.astype(np.float32)]
        return tables

    def apply(self, logits: torch.Tensor, upload: Upload) -> None:
        """Change `logits` (rows, vocab)."""
        if (bias := self._bias.upload(upload)) is not None:
            (rows, tokens), (values, *_) = bias
            logits[rows, tokens] += values
        if (penalties := self._penalties.upload(upload)) is not None:
            (rows, tokens), (repeat, taken, _) = penalties
            found = logits[rows, tokens]
            # Negative logits are multiplied, so that a penalty never helps.
            found = torch.where(found <= 0, found * repeat, found / repeat)
            logits[rows, tokens] = found - taken
        if (costs := self._dry.upload(upload)) is not None:
            (rows, tokens), (values, *_) = costs
            logits[rows, tokens] -= values

    def _add(
        self,
        row: int,
        chunk: ScheduledChunk,
        state: SamplingState,
        drafts: tuple[int, ...],
        dry: DryPenalties,
    ) -> None:
        """Take in what a row costs if these drafts come before it."""
        params, sequence = state.params, chunk.sequence
        if params.logit_bias:
            self._bias.add_values(row, params.logit_bias)
        if state.counts is not None:
            if chunk.awaits is None:
                said = state.counts.with_drafts(sequence, drafts)
            else:  # `AwaitedPenalties` or the kernel add the token that is in flight
                said = state.counts.with_awaited(sequence)
                first = params.frequency_penalty + params.presence_penalty
                self._awaited[row] = chunk.awaits, params.repeat_penalty, first
            taken, again = (
                (said.counts + more) * params.frequency_penalty + params.presence_penalty
                for more in (0, 1)
            )
            self._penalties.add(row, said.tokens, params.repeat_penalty, taken, again)
        if params.has_dry:
            costs = dry.penalties(params, [*sequence.token_ids, *drafts])
            self._dry.add_values(row, costs)
