"""Errors of commands, as printed to the user.

CommandError ├── UsageError the command line itself is wrong ├── DaemonUnreachable nothing listens
on the socket ├── DaemonSilent a daemon listens, but does not answer ├── ConnectionLost the
connection broke during an answer └── RequestFailed the daemon answered with an error
"""

from __future__ import annotations


class CommandError(Exception):
    """A failure in one sentence, and what to do next if known."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(CommandError):
    """The command line is wrong: exit status 2."""


class DaemonUnreachable(CommandError):
    """Nothing listens on the daemon's socket."""


class DaemonSilent(CommandError):
    """The daemon did not answer in time."""


class ConnectionLost(CommandError):
    """The connection broke during an answer."""


class RequestFailed(CommandError):
    """An error returned by the daemon; `code` is stable, `status` is HTTP's, 0 inside a stream."""

    def __init__(self, message: str, hint: str | None, *, code: str, status: int = 0) -> None:
        super().__init__(message, hint)
        self.code = code
        self.status = status
