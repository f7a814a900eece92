"""Greedy decoding, token by token, over a `Scorer`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...text.tokenization.tokenizer import Tokenizer
from ..verification.logit_comparison import Logits
from ..verification.scorer import Scorer


class Answerer:
    """Prefills in chunks and decodes greedily; one conversation at a time."""

    def __init__(self, scorer: Scorer, chunk: int) -> None:
        self._scorer = scorer
        self._chunk = chunk

    def read(self, tokens: Sequence[int], start: int) -> Logits:
        """Prefill all tokens and return the logits after each token from `start` on."""
        self._scorer.begin()
        for at in range(0, start, self._chunk):
            self._scorer.read(tokens, at, min(at + self._chunk, start))
        parts = [
            self._scorer.read(tokens, at, min(at + self._chunk, len(tokens))).copy()
            for at in range(start, len(tokens), self._chunk)
        ]
        return np.concatenate(parts)

    def answer(
        self, prompt: Sequence[int], tokenizer: Tokenizer, limit: int
    ) -> tuple[list[int], Logits]:
        """Return the greedy answer of at most `limit` tokens, and the logits at each position.

        The end-of-generation token is not part of it.
        """
        tokens, rows = list(prompt), [self.read(prompt, len(prompt) - 1)[-1]]
        while not tokenizer.is_eog(choice := int(rows[-1].argmax())):
            tokens.append(choice)
            if len(rows) == limit:
                break
            rows.append(self._scorer.read(tokens, len(tokens) - 1, len(tokens))[0].copy())
        return tokens[len(prompt) :], np.stack(rows)
