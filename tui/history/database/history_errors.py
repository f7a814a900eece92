"""What can go wrong with the place where chats are kept.

HistoryError
├── HistoryLocked     it is encrypted, and no passphrase was given yet
├── WrongPassphrase   the passphrase does not open it
└── SearchSuperseded  a newer search took this one's place
"""

from __future__ import annotations


class HistoryError(Exception):
    """A failure with a sentence for people, and where possible what to do next."""

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
    """A newer search took this one's place."""

    def __init__(self) -> None:
        super().__init__("A newer search took this one's place.")
