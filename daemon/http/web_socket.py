"""uvicorn's WebSocket protocol, as one of the connections that the daemon counts.

Imported with the first WebSocket, since its library takes long to import.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ..transport.peer import PeerConnection
from .http_protocol import CONNECTION

PIECE = 2**14
"""Bytes that are parsed in one go: a read of 256 KiB can hold 40,000 frames."""


class GuardedWebSocket(WebSocketsSansIOProtocol):
    """One WebSocket, after its handshake was read as an HTTP request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unparsed = bytearray()

    @property
    def connection(self) -> PeerConnection:
        """The peer, which was identified when it connected."""
        return self.app_state[CONNECTION]

    def data_received(self, data: bytes) -> None:
        """Parse the data in pieces, between which the event loop runs."""
        waits = bool(self._unparsed)
        self._unparsed += data
        if not waits:
            self._parse_piece()

    def _parse_piece(self) -> None:
        piece = bytes(self._unparsed[:PIECE])
        super().data_received(piece)
        del self._unparsed[:PIECE]
        if self.transport.is_closing():
            return
        if self._unparsed:
            self.transport.pause_reading()
            self.loop.call_soon(self._parse_piece)
        elif not self.read_paused:
            self.transport.resume_reading()

    async def receive(self) -> Any:
        """See the base class, which reads on; not before all that was read is parsed."""
        message = await super().receive()
        if self._unparsed:
            self.transport.pause_reading()
        return message
