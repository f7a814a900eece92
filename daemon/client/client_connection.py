"""One connection of the async client: a request and its response, by h11."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import h11
import msgspec

from .client_errors import DaemonError
from .document_types import FormBody

READ_SIZE = 1 << 16


class ClientConnection:
    """One request and its response."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        error: Callable[[bytes, int], DaemonError],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._error = error
        self._h11 = h11.Connection(h11.CLIENT)

    async def send(self, method: str, path: str, body: object, *, accept: str) -> None:
        """Send the request, with `body` as JSON unless it is None or a form."""
        content, kind = b"", "application/json"
        if isinstance(body, FormBody):
            content, kind = body
        elif body is not None:
            content = msgspec.json.encode(body)
        # The daemon checks Host against DNS rebinding; "localhost" is right for both transports.
        headers = [("Host", "localhost"), ("Accept", accept), ("Connection", "close")]
        if body is not None:
            headers += [
                ("Content-Type", kind),
                ("Content-Length", str(len(content))),
            ]
        request = h11.Request(method=method, target=path, headers=headers)
        parts = [self._h11.send(request) or b""]
        if content:
            parts.append(self._h11.send(h11.Data(data=content)) or b"")
        parts.append(self._h11.send(h11.EndOfMessage()) or b"")
        self._writer.write(b"".join(parts))
        await self._writer.drain()

    async def read_head(self) -> None:
        """Read up to the body; raises `DaemonError` when the status is not a success."""
        event = await self._next_event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next_event()
        if not isinstance(event, h11.Response):
            raise EOFError
        if not 200 <= event.status_code < 300:
            raise self._error(await self.read_all(), event.status_code)

    async def read_chunk(self) -> bytes | None:
        """Return the next bytes of the body, None at its end."""
        event = await self._next_event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def read_all(self) -> bytes:
        """Return the rest of the body."""
        chunks: list[bytes] = []
        while (chunk := await self.read_chunk()) is not None:
            chunks.append(chunk)
        return b"".join(chunks)

    async def _next_event(self) -> h11.Event:
        while True:
            event = self._h11.next_event()
            if isinstance(event, h11.Event):
                return event
            if event is h11.PAUSED:
                raise EOFError
            # At its end h11 either completes the message or raises RemoteProtocolError.
            self._h11.receive_data(await self._reader.read(READ_SIZE))
