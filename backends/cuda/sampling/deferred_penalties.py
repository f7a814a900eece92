"""Penalties for tokens that were said by a step in flight, and that only the device knows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from ...engine.batch import ScheduledChunk
from .sampling_state import SamplingState
from .token_counts import Said

Upload = Callable[[NDArray[np.generic]], torch.Tensor]

_NO_TOKEN = -1


class AwaitedPenalties:
    """The rows of a batch whose penalties count one token more than `Adjustments` know of.

    There the token's logit is found before anything is adjusted, and afterwards becomes what it
    would be had the token been counted, to the last bit.
    """

    def __init__(self, chunks: list[ScheduledChunk], states: list[SamplingState]) -> None:
        self._places: list[tuple[int, int]] = []
        self._numbers: list[tuple[float, float, float]] = []
        self._said: list[Said] = []
        row = 0
        for chunk, state in zip(chunks, states, strict=True):
            if chunk.awaits is not None and state.counts is not None:
                params = state.params
                self._places.append((row, chunk.awaits))
                self._numbers.append(
                    (params.repeat_penalty, params.frequency_penalty, params.presence_penalty)
                )
                self._said.append(state.counts.with_awaited(chunk.sequence))
            row += 1 + len(chunk.drafts)

    def penalised(self, logits: torch.Tensor, drawn: torch.Tensor, upload: Upload) -> Penalised:
        """The logits to be, by `logits` (rows, vocab) as they are before any adjustment.

        `drawn` has the tokens of the step in flight, by its rows.
        """
        rows, awaited = upload(np.asarray(self._places, np.int64)).unbind(1)
        repeat, frequency, presence = upload(np.asarray(self._numbers, np.float64)).unbind(1)
        known, counts = self._tables()
        tokens = drawn[awaited]
        said = (upload(known) == tokens[:, None]).mul(upload(counts)).sum(-1) + 1
        found, repeat = logits[rows, tokens], repeat.float()
        found = torch.where(found <= 0, found * repeat, found / repeat)
        return Penalised(rows, tokens, found - (said * frequency + presence).float())

    def _tables(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The tokens that are counted in each row, and how often they were said."""
        shape = len(self._said), max(1, *(len(said.tokens) for said in self._said))
        known, counts = np.full(shape, _NO_TOKEN, np.int64), np.zeros(shape)
        for place, said in enumerate(self._said):
            known[place, : len(said.tokens)] = said.tokens
            counts[place, : len(said.tokens)] = said.counts
        return known, counts


class Penalised:
    """One logit each of some rows."""

    def __init__(self, rows: torch.Tensor, tokens: torch.Tensor, values: torch.Tensor) -> None:
        self._rows, self._tokens, self._values = rows, tokens, values

    def write(self, logits: torch.Tensor) -> None:
        """Put them into `logits` (rows, vocab)."""
        logits[self._rows, self._tokens] = self._values
