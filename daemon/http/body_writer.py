"""The straight way to a response's body, past the layers that an ASGI message goes through."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from .http_protocol import GuardedProtocol


class BodyWriter:
    """Writes parts of one body, after the ASGI message for its start and before that for its end.

    An ASGI message passes each middleware as a coroutine of its own; for a token that costs more
    than the token, and a part of a body is the connection's business alone.
    """

    def __init__(self, cycle: RequestResponseCycle, protocol: GuardedProtocol) -> None:
        self._cycle = cycle
        self._protocol = protocol

    @property
    def paused_at(self) -> float | None:
        """Since when the client reads too slowly, on the loop's clock; None while it keeps up."""
        return self._protocol.paused_at

    def write(self, data: bytes) -> None:
        """Hand over a part, which is kept until the client reads it, or dropped if it has left."""
        cycle = self._cycle
        if cycle.disconnected or cycle.response_complete:
            return
        assert cycle.response_started
        if cycle.chunked_encoding:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        cycle.transport.write(data)

    async def drain(self) -> None:
        """Wait while the client reads too slowly."""
        if self._protocol.paused_at is not None:
            await self._cycle.flow.drain()
