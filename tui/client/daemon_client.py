"""`AsyncDaemonClient`: the native API over a unix socket or TCP, on asyncio streams and h11.

httpx would do the same, but importing it takes longer than a whole start of the chat may.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import h11
import msgspec

from .api_types import ErrorEnvelope
from .client_errors import DaemonError, DaemonUnreachable
from .sse_parser import ServerSentEvent, ServerSentEventParser

READ_SIZE = 1 << 16
CONNECT_TIMEOUT = 5.0
STREAM_SILENCE = 45.0
"""Seconds without a byte after which a stream counts as lost; the daemon comments every 15."""

T = TypeVar("T")


class AsyncDaemonClient:
    """One daemon's HTTP API; every request has a connection of its own, closed on cancellation.

    Raises `DaemonError` for an error the daemon reports and `DaemonUnreachable` where no whole
    answer arrived.
    """

    def __init__(
        self, socket_path: str | None = None, address: tuple[str, int] | None = None
    ) -> None:
        if socket_path is None and address is None:
            raise ValueError("a socket path or an address is needed")
        self._socket_path = socket_path
        self._address = address

    @property
    def endpoint(self) -> str:
        """Where the daemon is expected, for people."""
        if self._socket_path is not None:
            return self._socket_path
        assert self._address is not None
        return f"{self._address[0]}:{self._address[1]}"

    async def request(
        self, kind: type[T], method: str, path: str, body: object = None, *, patience: float = 30.0
    ) -> T:
        """Send `body` as JSON and return the answer as `kind`; `patience` is in seconds."""
        content = await self._exchange(method, path, body, patience)
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.MsgspecError as error:
            raise DaemonError(
                f"The daemon's answer to {method} {path} was not understood: {error}.",
                "The daemon may be of another version: `ingle stop`, then start the chat again.",
                "bad_answer",
            ) from error

    async def request_json(self, method: str, path: str, body: object = None) -> Any:
        """Send `body` as JSON and return the decoded answer, None where there is none."""
        content = await self._exchange(method, path, body, 30.0)
        return msgspec.json.decode(content) if content.strip() else None

    async def events(
        self, path: str, *, method: str = "GET", body: object = None
    ) -> AsyncGenerator[ServerSentEvent, None]:
        """Yield a stream's events until its end; closing the iterator closes the connection."""
        parser = ServerSentEventParser()
        async with self._connection() as connection:
            await connection.send(method, path, body, accept="text/event-stream")
            async with asyncio.timeout(STREAM_SILENCE):
                await connection.read_head()
            while True:
                async with asyncio.timeout(STREAM_SILENCE):
                    chunk = await connection.read_chunk()
                if chunk is None:
                    return
                for event in parser.feed(chunk):
                    yield event

    async def _exchange(self, method: str, path: str, body: object, patience: float) -> bytes:
        async with self._connection() as connection, asyncio.timeout(patience):
            await connection.send(method, path, body, accept="application/json")
            await connection.read_head()
            return await connection.read_all()

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[_Connection]:
        """An open connection; whatever breaks while it is in use becomes `DaemonUnreachable`."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                reader, writer = await self._open()
        except (OSError, TimeoutError) as error:
            raise DaemonUnreachable(f"The daemon does not answer at {self.endpoint}.") from error
        try:
            yield _Connection(reader, writer)
        except (OSError, EOFError, TimeoutError, h11.RemoteProtocolError) as error:
            raise DaemonUnreachable("The connection to the daemon broke.") from error
        finally:
            # Not awaited: closing must not hold up a cancellation, and nothing is left to send.
            writer.close()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._socket_path is not None:
            return await asyncio.open_unix_connection(self._socket_path)
        assert self._address is not None
        return await asyncio.open_connection(*self._address)


class _Connection:
    """One request and its response."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._h11 = h11.Connection(h11.CLIENT)

    async def send(self, method: str, path: str, body: object, *, accept: str) -> None:
        content = b"" if body is None else msgspec.json.encode(body)
        # The daemon checks Host against DNS rebinding; "localhost" is right for both transports.
        headers = [("Host", "localhost"), ("Accept", accept), ("Connection", "close")]
        if body is not None:
            headers += [
                ("Content-Type", "application/json"),
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
            raise error_from_body(await self.read_all(), event.status_code)

    async def read_chunk(self) -> bytes | None:
        """The next bytes of the body, None at its end."""
        event = await self._next_event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def read_all(self) -> bytes:
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


def error_from_body(content: bytes | str, status: int = 0) -> DaemonError:
    """The daemon's error in `content`; one that says so where the body is not of its shape."""
    try:
        error = msgspec.json.decode(content, type=ErrorEnvelope).error
    except msgspec.MsgspecError:
        return DaemonError(f"The daemon answered with HTTP status {status}.", status=status)
    return DaemonError(error.message, error.hint, error.code or "error", status=status)
