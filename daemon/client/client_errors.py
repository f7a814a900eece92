"""Failures with a message for the user, and those of a request to the daemon.

UserError
└── ClientError               a request to the daemon failed
    ├── DaemonUnreachable     nothing listens at the daemon's address
    │   └── ConnectionLost    the connection broke before the answer was complete
    ├── DaemonSilent          the daemon accepts connections but does not answer
    └── DaemonError           the daemon answered with an error
"""

from __future__ import annotations


class UserError(Exception):
    """A failure: a message in one sentence, and maybe a hint on the next step."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ClientError(UserError):
    """A failed request."""

    code = "client_error"


class DaemonUnreachable(ClientError):
    """Nothing listens at the daemon's address; trying again may help."""

    code = "daemon_unreachable"


class ConnectionLost(DaemonUnreachable):
    """The connection broke, or a stream fell silent, before the answer was complete."""


class DaemonSilent(ClientError):
    """The daemon accepted the connection, but did not answer in time."""


class DaemonError(ClientError):
    """An error that the daemon reports.

    `code` is stable; `status` is the HTTP status, 0 in a stream.
    """

    def __init__(
        self, message: str, hint: str | None = None, code: str = "error", *, status: int = 0
    ) -> None:
        super().__init__(message, hint)
        self.code = code
        self.status = status
