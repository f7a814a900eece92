"""The response header `Ingle-Route`, which says where a request was answered."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..client.generation_types import RouteTaken

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"ingle-route"
_LONGEST_AGENT = 200


class RouteRecord:
    """The route of one request, as long as it can still change.

    `path` is the request's own, `agent` what its client calls itself.
    """

    def __init__(self, path: str = "", agent: str = "") -> None:
        self.taken: RouteTaken | None = None
        self.path, self.agent = path, agent


current_route_record: ContextVar[RouteRecord | None] = ContextVar(
    "current_route_record", default=None
)
"""The record of the current request; tasks that it starts share it."""


class RouteHeader:
    """ASGI middleware that adds the `Ingle-Route` header to responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the header to the message that starts the response; the body is untouched."""
        agent = dict(scope.get("headers", ())).get(b"user-agent", b"")
        record = RouteRecord(scope.get("path", ""), agent.decode("latin-1")[:_LONGEST_AGENT])

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start" and record.taken is not None:
                headers = [*message["headers"], (HEADER, _line(record.taken).encode())]
                message = {**message, "headers": headers}
            await send(message)

        token = current_route_record.set(record)
        try:
            await self._app(scope, receive, send_with_header)
        finally:
            current_route_record.reset(token)


def _line(taken: RouteTaken) -> str:
    """Return the value of the header, in ASCII."""
    target = f"{taken.provider}/{taken.model}" if taken.provider else taken.model
    line = f"{taken.verdict}; model={target}; rule={taken.rule}"
    return "".join(c if "\x20" <= c <= "\x7e" else "?" for c in line)
