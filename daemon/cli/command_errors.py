"""What a command tells the person who typed it.

CommandError
├── UsageError            the command line itself is wrong
├── DaemonUnreachable     nobody answers on the socket
├── DaemonSilent          somebody listens, but does not answer
├── ConnectionLost        the daemon went away in the middle of an answer
└── RequestFailed         the daemon answered with an error
"""

from __future__ import annotations


class CommandError(Exception):
    """A failure in one sentence, and where possible what to do next."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(CommandError):
    """The command line is wrong: exit status 2."""


class DaemonUnreachable(CommandError):
    """Nobody listens on the daemon's socket."""


class DaemonSilent(CommandError):
    """The daemon took longer to answer than it ever should."""


class ConnectionLost(CommandError):
    """The daemon went away in the middle of an answer."""


class RequestFailed(CommandError):
    """The daemon's own error; `code` is stable, `status` is HTTP's, 0 inside a stream."""

    def __init__(self, message: str, hint: str | None, *, code: str, status: int = 0) -> None:
        super().__init__(message, hint)
        self.code = code
        self.status = status
