"""Log-probabilities of sampled tokens, copied to the host together with them."""

from __future__ import annotations

import numpy as np
import torch

from ...base.events import TokenLogprobs
from ...engine.batch import ScheduledChunk, sampling_rows
from ...engine.logprobs import LEAST
from .candidates import likeliest
from .upload import upload


class LogprobRows:
    """The rows of a batch whose log-probabilities are reported, and how many likely tokens."""

    def __init__(self, chunks: list[ScheduledChunk]) -> None:
        self._rows: list[int] = []
        self._most = 0
        for rows, chunk in sampling_rows(chunks):
            if chunk.sequence.logprobs is not None:
                self._rows += rows
                self._most = max(self._most, chunk.sequence.logprobs)

    @property
    def wanted(self) -> bool:
        """Whether there are any."""
        return bool(self._rows)

    def append(self, logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """One row each: the token, its log-probability, the likeliest ones, theirs; float64.

        Probabilities are those of the raw `logits` (rows, vocab).
        """
        rows = upload(np.asarray(self._rows, np.int64), logits.device)
        raw = logits[rows]
        peak = raw.amax(-1, keepdim=True)
        total = (raw - peak).exp().sum(-1, keepdim=True, dtype=torch.float64).log() + peak
        parts = [raw.gather(-1, tokens[rows, None]) - total]
        if self._most:
            top, ids = likeliest(raw, min(self._most, raw.shape[-1]))
            parts += [ids.double(), top - total]
        wanted = torch.cat(parts, -1)
        appended = wanted.new_zeros((len(tokens), 1 + wanted.shape[-1]))
        appended[:, 0] = tokens
        appended[rows, 1:] = wanted
        return appended


def read_logprobs(row: list[float], count: int) -> TokenLogprobs:
    """What `LogprobRows.append` wrote in a row, with the `count` likeliest tokens."""
    width = (len(row) - 2) // 2
    ids, values = row[2 : 2 + width], row[2 + width :]
    pairs = zip(ids[:count], values[:count], strict=True)
    top = [(int(token), max(value, LEAST)) for token, value in pairs]
    return TokenLogprobs(int(row[0]), max(row[1], LEAST), top)
