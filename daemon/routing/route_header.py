"""What a request's answer says of the way it took: the header `Ingle-Route`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"ingle-route"


class RouteTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request was answered and why; `provider` is empty where it was here.

    `redacted` are the kinds that placeholders stood for in what left.
    """

    verdict: str
    rule: str
    reason: str
    provider: str
    model: str
    redacted: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        """The same in a line of ASCII."""
        target = f"{self.provider}/{self.model}" if self.provider else self.model
        line = f"{self.verdict}; model={target}; rule={self.rule}"
        return "".join(c if "\x20" <= c <= "\x7e" else "?" for c in line)


class RouteRecord:
    """The way that one request takes, as long as it can still change."""

    def __init__(self) -> None:
        self.taken: RouteTaken | None = None


current_note: ContextVar[RouteRecord | None] = ContextVar("current_note", default=None)
"""The note of the request that is being answered; tasks that it starts share it."""


class RouteHeader:
    """Puts the way that a request took into the headers of its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Only the message that starts the answer is looked at; a stream's body passes it by."""
        note = RouteRecord()

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start" and note.taken is not None:
                headers = [*message["headers"], (HEADER, note.taken.header.encode())]
                message = {**message, "headers": headers}
            await send(message)

        token = current_note.set(note)
        try:
            await self._app(scope, receive, send_with_header)
        finally:
            current_note.reset(token)
