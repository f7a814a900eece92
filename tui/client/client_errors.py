"""What can go wrong between the chat and the daemon.

ClientError
├── DaemonUnreachable   nobody answers at the socket, or the connection broke
└── DaemonError         the daemon answered with an error
"""

from __future__ import annotations

from ..text.terminal_safe_text import clean


class ClientError(Exception):
    """A failure with a sentence for people, a stable code, and where possible what to do next."""

    code = "client_error"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = clean(message)
        self.hint = clean(hint) if hint else hint


class DaemonUnreachable(ClientError):
    """Nobody answers, the connection broke, or the stream fell silent; trying again may help."""

    code = "daemon_unreachable"


class DaemonError(ClientError):
    """The daemon's own error; `code` is its stable word, `status` that of HTTP, 0 in a stream."""

    def __init__(
        self, message: str, hint: str | None = None, code: str = "error", *, status: int = 0
    ) -> None:
        super().__init__(message, hint)
        self.code = code
        self.status = status
