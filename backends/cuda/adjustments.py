"""What is added to single logits before anything is drawn: bias, penalties, DRY."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from ..engine.batch import Chunk
from .dry import DryPenalties
from .sampling_state import SamplingState

Upload = Callable[[NDArray[np.generic]], torch.Tensor]


class _Entries:
    """Numbers for single tokens of single rows."""

    def __init__(self, numbers: int) -> None:
        self._rows: list[int] = []
        self._tokens: list[int] = []
        self._values: list[list[float]] = [[] for _ in range(numbers)]

    def add(self, row: int, tokens: Iterable[int], *values: Iterable[float]) -> None:
        before = len(self._tokens)
        self._tokens.extend(tokens)
        self._rows += [row] * (len(self._tokens) - before)
        for column, more in zip(self._values, values, strict=True):
            column.extend(more)

    @property
    def tokens(self) -> list[int]:
        """Of all entries, row by row."""
        return self._tokens

    def offsets(self, rows: int) -> NDArray[np.int64]:
        """Where each row's entries begin, and where the last one's end."""
        return np.searchsorted(np.asarray(self._rows, np.int64), np.arange(rows + 1))

    def pairs(self) -> NDArray[np.float32]:
        """The numbers (n, 2) of each entry; the second is zero where there is one."""
        pairs = np.zeros((len(self._tokens), 2), np.float32)
        for place, column in enumerate(self._values):
            pairs[:, place] = column
        return pairs

    def upload(self, upload: Upload) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Places (2, n) and numbers (numbers, n) float32; None where there are none."""
        if not self._tokens:
            return None
        places = np.asarray((self._rows, self._tokens), np.int64)
        return upload(places), upload(np.asarray(self._values, np.float32))


class Adjustments:
    """The changes to the logits of one batch, gathered on the host."""

    def __init__(self, chunks: list[Chunk], states: list[SamplingState], dry: DryPenalties) -> None:
        self._bias = _Entries(1)
        self._penalties = _Entries(2)
        self._dry = _Entries(1)
        self._kinds = self._bias, self._penalties, self._dry
        row = 0
        for chunk, state in zip(chunks, states, strict=True):
            for count in range(1 + len(chunk.drafts)):
                self._add(row, chunk, state, chunk.drafts[:count], dry)
                row += 1
        self._count = row

    @property
    def are_none(self) -> bool:
        """Whether nothing changes."""
        return not any(each.tokens for each in self._kinds)

    def tables(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """Offsets, tokens and values as `AdjustLogits` wants them."""
        begins = np.cumsum([0, *(len(each.tokens) for each in self._kinds)])
        offsets = [
            each.offsets(self._count) + begin
            for each, begin in zip(self._kinds, begins[:-1], strict=True)
        ]
        tokens = [token for each in self._kinds for token in each.tokens]
        values = np.concatenate([each.pairs() for each in self._kinds])
        return np.asarray(offsets, np.int32), np.asarray(tokens, np.int32), values

    def apply(self, logits: torch.Tensor, upload: Upload) -> None:
        """Change `logits` (rows, vocab)."""
        if (bias := self._bias.upload(upload)) is not None:
            (rows, tokens), (values,) = bias
            logits[rows, tokens] += values
        if (penalties := self._penalties.upload(upload)) is not None:
            (rows, tokens), (repeat, taken) = penalties
            found = logits[rows, tokens]
            # Negative logits are multiplied, so that a penalty never helps.
            found = torch.where(found <= 0, found * repeat, found / repeat)
            logits[rows, tokens] = found - taken
        if (costs := self._dry.upload(upload)) is not None:
            (rows, tokens), (values,) = costs
            logits[rows, tokens] -= values

    def _add(
        self,
        row: int,
        chunk: Chunk,
        state: SamplingState,
        drafts: tuple[int, ...],
        dry: DryPenalties,
    ) -> None:
        """Take in what a row costs if these drafts come before it."""
        params, sequence = state.params, chunk.sequence
        if params.logit_bias:
            self._bias.add(row, params.logit_bias.keys(), params.logit_bias.values())
        if state.counts is not None:
            counts = state.counts.with_drafts(sequence, drafts)
            costs = (
                n * params.frequency_penalty + params.presence_penalty for n in counts.values()
            )
            repeats = [params.repeat_penalty] * len(counts)
            self._penalties.add(row, counts.keys(), repeats, costs)
        if params.has_dry:
            costs = dry.penalties(params, [*sequence.token_ids, *drafts])
            self._dry.add(row, costs.keys(), costs.values())
