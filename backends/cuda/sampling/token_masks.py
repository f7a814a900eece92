"""Token masks: the tokens that the grammars of a batch allow in each row of logits."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ...engine.batch import ScheduledChunk, sampling_rows
from ...engine.constraint import Constraint
from .upload import upload


class TokenMasks:
    """Masks of all rows of sequences that have a constraint, computed on the host.

    The row after a draft has the mask that follows it. Rows after a draft that is not allowed have
    none, since their tokens are discarded.
    """

    def __init__(self, chunks: list[ScheduledChunk]) -> None:
        self._rows: list[int] = []
        self._masks: list[NDArray[np.bool_]] = []
        self._nothing: set[int] = set()
        for rows, chunk in sampling_rows(chunks):
            if chunk.sequence.constraint is not None:
                self._add(rows, chunk, chunk.sequence.constraint)

    def forbids_all(self, row: int) -> bool:
        """Whether no token is allowed in this row, so that the sampled one is meaningless."""
        return row in self._nothing

    def apply(self, logits: torch.Tensor, *, keep: bool) -> torch.Tensor:
        """The logits, without what is not allowed; they are overwritten unless to `keep`."""
        if not self._rows:
            return logits
        rows = upload(np.asarray(self._rows, np.int64), logits.device)
        allowed = upload(np.stack(self._masks), logits.device)
        if keep:
            logits = logits.clone()
        logits[rows] = logits[rows].masked_fill(~allowed, -torch.inf)
        return logits

    def bits(self) -> NDArray[np.int32] | None:
        """The masks (masks, vocab / 32 rounded up), 32 tokens a word from the lowest bit on."""
        if not self._masks:
            return None
        packed = np.packbits(np.stack(self._masks), axis=1, bitorder="little")
        padded = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 4)))
        return padded.view(np.int32)

    def numbers(self, rows: int) -> NDArray[np.int32]:
        """Which of the masks each of `rows` rows has; -1 for none."""
        numbers = np.full(rows, -1, np.int32)
        numbers[self._rows] = np.arange(len(self._rows))
        return numbers

    def _add(self, rows: range, chunk: ScheduledChunk, constraint: Constraint) -> None:
        if chunk.drafts:
            constraint = constraint.fork()
        for row, draft in zip(rows, (*chunk.drafts, None), strict=True):
            mask = constraint.mask()
            if not mask.any():
                self._nothing.add(row)
                return
            self._rows.append(row)
            self._masks.append(mask)
            if draft is None or not mask[draft]:
                return
            constraint.consume(draft)
            if constraint.complete or constraint.error:
                return
