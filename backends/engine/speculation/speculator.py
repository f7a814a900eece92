"""What guesses the tokens that decoding sequences will get."""

from __future__ import annotations

from typing import Protocol

from ..batch import Batch
from ..sequence import Sequence


class Speculator(Protocol):
    """Proposes drafts for the next step and learns from what became of them.

    It may guess badly, but it changes nothing but the speed: see `ModelRunner.collect`.
    """

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        """Guesses for some of the sequences, at most `room` tokens in all."""
        ...

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        """Whether guesses may come that are worth waiting for the tokens in flight."""
        ...

    def observe(self, batch: Batch, seconds: float) -> None:
        """Learn from a step that is booked, and how long it took."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """Free what is kept for a sequence that ended."""
        ...
