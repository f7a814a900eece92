"""The face of every detector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .finding import SensitiveFinding


class Detector(Protocol):
    """Looks for one family of sensitive things.

    One with a class attribute `whole_text = True` looks at what sentences mean, and sees only
    texts that have some, not each way to read a number.
    """

    @property
    def name(self) -> str:
        """One word, for explanations and errors."""
        ...

    def find(self, text: str) -> Iterable[SensitiveFinding]:
        """What is in the text, with offsets into it; in time that grows with its length."""
        ...
