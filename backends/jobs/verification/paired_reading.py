"""Feeds two engines the same tokens alternately and compares their logits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from .logit_comparison import Comparison, Statistics
from .scorer import Scorer


class PairedReading:
    """Logits of an engine and its reference, chunk by chunk, with the time each took.

    They never compute at the same time, so neither slows the other.
    """

    def __init__(self, engine: Scorer, reference: Scorer, *, chunk: int) -> None:
        """At most `chunk` logits rows are computed and kept at a time."""
        self._engine = engine
        self._reference = reference
        self._chunk = chunk
        self.seconds = 0.0
        self.reference_seconds = 0.0

    def compare(
        self, windows: Sequence[Sequence[int]], on_progress: Callable[[int], None]
    ) -> Statistics:
        """Compare the logits at every token but the last of each window.

        `on_progress` is called with the tokens compared. Raises `NotNumbers`.
        """
        comparison = Comparison()
        compared = 0
        for window in windows:
            self._engine.begin()
            self._reference.begin()
            for start in range(0, len(window) - 1, self._chunk):
                end = min(start + self._chunk, len(window) - 1)
                self._compare(comparison, window, start, end)
                compared += end - start
                on_progress(compared)
        return comparison.statistics()

    def _compare(self, comparison: Comparison, window: Sequence[int], start: int, end: int) -> None:
        began = time.monotonic()
        reference = self._reference.read(window, start, end)
        turned = time.monotonic()
        logits = self._engine.read(window, start, end)
        self.reference_seconds += turned - began
        self.seconds += time.monotonic() - turned
        comparison.add(logits, reference, np.array(window[start + 1 : end + 1]))
