"""A draft model with a given acceptance rate."""

from __future__ import annotations

import random

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.draft_model import CudaDraftRunner
from ingle.backends.cuda.model_files import ModelSource
from ingle.backends.engine.batch import Batch


class AgreeingDraft(CudaDraftRunner):
    """Computes like any draft model, then returns the tokens of `text`, or others.

    `agreement` is the share of right draft tokens.
    """

    agreement = 1.0

    def __init__(
        self, spec: LoadSpec, vocab_size: int, source: ModelSource, text: list[int]
    ) -> None:
        super().__init__(spec, vocab_size, source)
        self._text = text
        self._random = random.Random(7)
        self._places: list[int] = []

    def launch(self, batch: Batch) -> None:
        """See `ModelRunner`."""
        self._places = [
            chunk.sequence.num_computed + chunk.num_tokens
            for chunk in batch.chunks
            if chunk.samples
        ]
        super().launch(batch)

    def collect_likeliest(self) -> list[tuple[int, float]]:
        """See `DraftRunner`; always as sure."""
        guessed = super().collect_likeliest()
        found: list[tuple[int, float]] = []
        for (token, _), place in zip(guessed, self._places, strict=True):
            expected = self._text[place] if place < len(self._text) else token
            right = self._random.random() < self.agreement
            found.append((expected if right else (expected + 1) % self._common, 0.9))
        return found
