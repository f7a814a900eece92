"""One step of a check: its name, and what makes it."""

from __future__ import annotations

from collections.abc import Callable


class StepFailed(Exception):
    """A step failed: the reason, and what to do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


Step = tuple[str, Callable[[], str]]
"""The name of a step, and what makes it: returns a detail, or raises `StepFailed`."""
