"""The interface of speculators, which propose draft tokens for decoding sequences."""

from __future__ import annotations

from typing import Protocol

from ..batch import Batch
from ..sequence import Sequence


class Speculator(Protocol):
    """Proposes drafts for the next step and learns from their acceptance.

    Drafts change nothing but the speed: see `ModelRunner.collect`.
    """

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        """Return drafts for some of the sequences, at most `room` tokens in all."""
        ...

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        """Whether drafts may come that are worth waiting for the batch in flight."""
        ...

    def observe(self, batch: Batch, seconds: float) -> None:
        """Learn from a completed step that took so many seconds."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """Free the state of a finished sequence."""
        ...
