"""uvicorn's WebSocket protocol, as one of the connections that the daemon counts.

Imported with the first WebSocket, since its library takes long to import.
"""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ..transport.peer import PeerConnection
from .http_protocol import CONNECTION


class GuardedWebSocket(WebSocketsSansIOProtocol):
    """One WebSocket, after its handshake was read as an HTTP request."""

    @property
    def connection(self) -> PeerConnection:
        """The peer, which was identified when it connected."""
        return self.app_state[CONNECTION]
