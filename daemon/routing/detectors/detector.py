"""Interface of detectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .finding import SensitiveFinding


class Detector(Protocol):
    """Finds one family of sensitive content.

    A detector with the class attribute `whole_text = True` interprets sentences, and gets only
    texts that contain prose, not every view of a number.
    """

    @property
    def name(self) -> str:
        """One word, for explanations and errors."""
        ...

    def find(self, text: str) -> Iterable[SensitiveFinding]:
        """Return the findings with offsets into the text; in time proportional to its length."""
        ...
