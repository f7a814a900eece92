"""A `llama_batch` of whole texts or pieces of texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .token_batch import TokenBatch


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Consecutive tokens of one text, the first of them at `position` in it."""

    sequence: int
    position: int
    tokens: list[int]


class TextBatch(TokenBatch):
    """A batch in which every token has an output, or none has."""

    def fill_pieces(self, pieces: Iterable[TextSpan], *, outputs: bool) -> None:
        """Lay the pieces out one behind the other; they must fit."""
        end = 0
        for piece in pieces:
            start, end = end, end + len(piece.tokens)
            self._token[start:end] = piece.tokens
            self._pos[start:end] = np.arange(piece.position, piece.position + end - start)
            self._seq_id[start:end] = piece.sequence
        self._logits[:end] = outputs
        self.native.n_tokens = end
