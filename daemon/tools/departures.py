"""Records with the daemon what tools send: no entry, no request."""

from __future__ import annotations

import time
from contextlib import suppress

from ..client.async_client import AsyncDaemonClient
from ..client.client_errors import ClientError
from ..client.routing_types import RecordedDeparture
from .tool import ToolFailed

_PATH = "/ingle/v1/ledger"


class Departure:
    """One request that was recorded before it left; count its bytes, and settle it."""

    def __init__(self, client: AsyncDaemonClient, entry: int) -> None:
        self._client = client
        self._path = f"{_PATH}/{entry}"
        self._start = time.monotonic()
        self.sent = 0
        self.received = 0

    async def settle(self, outcome: str) -> None:
        """Record how it ended: `complete`, `cancelled`, `refused` or `failed`."""
        receipt = {
            "bytes_out": self.sent,
            "bytes_in": self.received,
            "seconds": time.monotonic() - self._start,
            "outcome": outcome,
        }
        with suppress(ClientError):  # the ledger says "unknown" then
            await self._client.request(RecordedDeparture, "POST", self._path, receipt)


class Departures:
    """The ledger, as far as a tool host writes it."""

    def __init__(self, socket: str, *, private: bool) -> None:
        self._socket = socket
        self._private = private

    @property
    def obstacle(self) -> str:
        """Return why nothing may leave, in a sentence; empty if something may."""
        if self._private:
            return "The chat is private: nothing leaves this machine."
        if not self._socket:
            return "No daemon keeps a ledger of what leaves, so nothing leaves."
        return ""

    async def begin(self, tool: str, host: str) -> Departure:
        """Record a request that is about to be sent; raises `ToolFailed`, and then it must not."""
        if self.obstacle:
            raise ToolFailed(self.obstacle)
        client = AsyncDaemonClient(self._socket)
        body = {"tool": tool, "destination": host}
        try:
            answer = await client.request(RecordedDeparture, "POST", _PATH, body)
        except ClientError as error:
            raise ToolFailed(f"Nothing was sent, since it cannot be recorded: {error}") from error
        return Departure(client, answer.entry)
