"""Adjust single logits before sampling: bias, penalties, DRY."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...base.sampling_params import SamplingParams
from ...engine.batch import ScheduledChunk, sampling_rows
from .dry_penalties import DryPenalties
from .sampling_state import SamplingState
from .token_counts import TokenOccurrences
from .upload import upload

_NO_TOKEN = -1

Numbers = float | NDArray[np.floating[Any]]


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

    def upload(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Places (2, n) and numbers (3, n) float32; None where there are none."""
        if self.are_none:
            return None
        tokens, values = self.arrays()
        places = np.stack((np.repeat(self._rows, self.counts), tokens))
        return upload(places, device), upload(np.ascontiguousarray(values.T), device)


class _AwaitedToken(NamedTuple):
    """The token at `place` of the tokens sampled last, and those that are counted without it."""

    place: int
    params: SamplingParams
    counted: TokenOccurrences


class Adjustments:
    """The changes to the logits of one batch, gathered on the host."""

    def __init__(
        self, chunks: list[ScheduledChunk], states: list[SamplingState], dry: DryPenalties
    ) -> None:
        self._bias, self._penalties, self._dry = self._kinds = _Entries(), _Entries(), _Entries()
        self._count = sum(chunk.num_rows for chunk in chunks)
        self._awaited: dict[int, _AwaitedToken] = {}
        for (rows, chunk), state in zip(sampling_rows(chunks), states, strict=True):
            if state.adjusts:
                for count, row in enumerate(rows):
                    self._add(row, chunk, state, chunk.drafts[:count], dry)

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
            for row, (place, params, _) in self._awaited.items():
                added = params.frequency_penalty + params.presence_penalty
                awaited[row], first[row] = place, (params.repeat_penalty, added)
            tables += [awaited, first.astype(np.float32)]
        return tables

    def apply(self, logits: torch.Tensor, drawn: torch.Tensor | None = None) -> None:
        """Change `logits` (rows, vocab); `drawn` has the tokens that rows await."""
        awaited = None if drawn is None else self._penalize_awaited(logits, drawn)
        if (bias := self._bias.upload(logits.device)) is not None:
            (rows, tokens), (values, *_) = bias
            logits[rows, tokens] += values
        if (penalties := self._penalties.upload(logits.device)) is not None:
            (rows, tokens), (repeat, taken, _) = penalties
            logits[rows, tokens] = _penalize(logits[rows, tokens], repeat) - taken
        if (costs := self._dry.upload(logits.device)) is not None:
            (rows, tokens), (values, *_) = costs
            logits[rows, tokens] -= values
        if awaited is not None:
            rows, tokens, values = awaited
            logits[rows, tokens] = values

    def _penalize_awaited(
        self, logits: torch.Tensor, drawn: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
        """Rows, awaited tokens, and their logits as they are once these tokens are counted.

        Equal, to the last bit, to the logits if the host knew the tokens.
        """
        if not self._awaited:
            return None
        device, found = logits.device, list(self._awaited.values())
        places = [(row, each.place) for row, each in self._awaited.items()]
        rows, awaited = upload(np.asarray(places, np.int64), device).unbind(1)
        numbers = [
            (p.repeat_penalty, p.frequency_penalty, p.presence_penalty)
            for p in (each.params for each in found)
        ]
        repeat, frequency, presence = upload(np.asarray(numbers, np.float64), device).unbind(1)
        shape = len(found), max(1, *(len(each.counted.tokens) for each in found))
        known, counts = np.full(shape, _NO_TOKEN, np.int64), np.zeros(shape)
        for place, each in enumerate(found):
            known[place, : len(each.counted.tokens)] = each.counted.tokens
            counts[place, : len(each.counted.tokens)] = each.counted.counts
        tokens = drawn[awaited]
        is_known = upload(known, device) == tokens[:, None]
        occurrences = is_known.mul(upload(counts, device)).sum(-1) + 1
        penalized = _penalize(logits[rows, tokens], repeat.float())
        return rows, tokens, penalized - (occurrences * frequency + presence).float()

    def _add(
        self,
        row: int,
        chunk: ScheduledChunk,
        state: SamplingState,
        drafts: tuple[int, ...],
        dry: DryPenalties,
    ) -> None:
        """Add the adjustments of a row after these drafts."""
        params, sequence = state.params, chunk.sequence
        if params.logit_bias:
            self._bias.add_values(row, params.logit_bias)
        if state.counts is not None:
            if chunk.awaits is None:
                generated = () if chunk.is_scored else drafts
                counted = state.counts.with_drafts(sequence, generated)
            else:  # `apply` or the kernel counts the awaited token
                counted = state.counts.with_awaited(sequence)
                self._awaited[row] = _AwaitedToken(chunk.awaits, params, counted)
            taken, again = (
                (counted.counts + more) * params.frequency_penalty + params.presence_penalty
                for more in (0, 1)
            )
            self._penalties.add(row, counted.tokens, params.repeat_penalty, taken, again)
        if params.has_dry:
            costs = dry.penalties(params, [*sequence.token_ids, *drafts])
            self._dry.add_values(row, costs)


def _penalize(logits: torch.Tensor, repeat: torch.Tensor) -> torch.Tensor:
    """Negative logits are multiplied, so that a penalty never helps."""
    return torch.where(logits <= 0, logits * repeat, logits / repeat)
