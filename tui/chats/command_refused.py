"""`CommandRefused`: the error of a command that changed nothing."""

from __future__ import annotations


class CommandRefused(Exception):
    """A refused command that changed nothing; the reason, and a hint."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
