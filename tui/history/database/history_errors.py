"""Errors of the chat history.

HistoryError
├── HistoryLocked     it is encrypted, and no passphrase was given yet
├── WrongPassphrase   the passphrase does not open it
└── SearchSuperseded  a newer search replaced this one
"""

from __future__ import annotations


class HistoryError(Exception):
    """A failure with a user-facing message and, if possible, a hint about the next step."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class HistoryLocked(HistoryError):
    """The chats are encrypted, and no passphrase was given yet."""

    def __init__(self) -> None:
        super().__init__("The chats are encrypted.", "Unlock them with the passphrase.")


class WrongPassphrase(HistoryError):
    """The passphrase does not open the chats."""

    def __init__(self) -> None:
        super().__init__("This passphrase does not open the chats.", "Try it again.")


class SearchSuperseded(HistoryError):
    """A newer search replaced this one."""

    def __init__(self) -> None:
        super().__init__("A newer search replaced this one.")
