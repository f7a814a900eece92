"""A fake provider that records every received byte and answers as the test specifies."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.clearance import Clearance, request_digest
from ingle.backends.remote.providers import Provider, ProviderKind
from ingle.backends.remote.receipt import Receipt
from ingle.backends.remote.remote_backend import RemoteBackend

if sys.platform != "win32":
    import uvloop

    def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
        """The daemon's event loop, whose buffering of writes differs from asyncio's."""
        return {"uvloop": uvloop.new_event_loop}


KEY = "sk-test-8f2b1c"

Respond = Callable[["Connection"], Awaitable[None]]


@dataclass(eq=False)
class Connection:
    """One connection: the received bytes, and methods to answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    received: bytearray = field(default_factory=bytearray)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def head(self) -> list[str]:
        return self.received.split(b"\r\n\r\n", 1)[0].decode().split("\r\n")

    @property
    def body(self) -> dict[str, object]:
        return msgspec.json.decode(bytes(self.received).split(b"\r\n\r\n", 1)[1])

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.received).hexdigest()

    async def read_request(self) -> None:
        while b"\r\n\r\n" not in self.received:
            self.received += await self._some()
        head, _, body = bytes(self.received).partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while len(body) < length:
            more = await self._some()
            self.received += more
            body += more

    async def _some(self) -> bytes:
        data = await self.reader.read(65536)
        if not data:
            raise ConnectionError
        return data

    async def answer(
        self, body: bytes, status: str = "200 OK", *headers: str, kind: str = "text/event-stream"
    ) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", *headers, "Connection: close"]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()


@dataclass(eq=False)
class Sink:
    """Listens on its own port; `respond` handles each connection."""

    respond: Respond | None = None
    connections: list[Connection] = field(default_factory=list[Connection])
    port: int = 0

    @property
    def received(self) -> int:
        return sum(len(connection.received) for connection in self.connections)

    def always(
        self, body: bytes, status: str = "200 OK", *headers: str, kind: str = "text/event-stream"
    ) -> None:
        """Answer every connection with the same response."""

        async def respond(connection: Connection) -> None:
            await connection.answer(body, status, *headers, kind=kind)

        self.respond = respond

    def sse(self, *events: object, done: bool = True) -> bytes:
        """Encode OpenAI stream events."""
        parts = [b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events]
        return b"".join(parts) + (b"data: [DONE]\n\n" if done else b"")

    def chunk(self, content: str | None = None, finish: str | None = None, **delta: object):
        """One OpenAI stream chunk."""
        if content is not None:
            delta["content"] = content
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    @property
    def hello(self) -> bytes:
        """A complete answer."""
        return self.sse(
            self.chunk(role="assistant"),
            self.chunk("Hel"),
            self.chunk("lo"),
            self.chunk(finish="stop"),
            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        self.connections.append(connection)
        try:
            await connection.read_request()
            assert self.respond is not None
            await self.respond(connection)
            writer.close()
            while data := await reader.read(65536):
                connection.received += data
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            connection.gone.set()


@pytest.fixture
async def sink() -> AsyncGenerator[Sink]:
    """The fake provider, listening."""
    found = Sink()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()
    for connection in found.connections:
        connection.writer.close()
    await server.wait_closed()


@dataclass(eq=False)
class Exchange:
    """A request sent by a backend: its events, receipts and number of departures."""

    receipts: list[Receipt] = field(default_factory=list[Receipt])
    events: list[Event] = field(default_factory=list[Event])
    departures: int = 0
    backend: RemoteBackend | None = None

    @property
    def receipt(self) -> Receipt:
        (receipt,) = self.receipts
        return receipt

    def text(self, index: int = 0) -> str:
        return "".join(e.text for e in self.events if isinstance(e, Delta) and e.index == index)

    @property
    def reasoning(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, ReasoningDelta))

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        return [
            (
                call.call_id,
                call.name,
                "".join(
                    e.arguments
                    for e in self.events
                    if isinstance(e, ToolCallDelta) and (e.index, e.call) == (call.index, call.call)
                ),
            )
            for call in self.events
            if isinstance(call, ToolCallStarted)
        ]

    @property
    def ends(self) -> list[Finished]:
        return [event for event in self.events if isinstance(event, Finished)]


class ProviderClient:
    """Sends requests to the sink as a provider of a given kind."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def provider(self, kind: str = "openai", **fields: object) -> Provider:
        values: dict[str, object] = {"retries": 0, "own": True, "json_schema": True, **fields}
        return Provider(
            kind=ProviderKind(kind),
            name="sink",
            base_url=f"http://127.0.0.1:{self.sink.port}/v1",
            **values,  # pyright: ignore[reportArgumentType]  # of a test
        )

    def new_exchange(self) -> Exchange:
        return Exchange()

    def backend(
        self, request: GenerateRequest, exchange: Exchange, provider: Provider
    ) -> RemoteBackend:
        async def depart(size: int) -> None:
            exchange.departures += 1

        clearance = Clearance(
            digest=request_digest(request),
            provider=provider.name,
            model="m-1",
            verdict="cloud",
            rule="test",
        )
        return RemoteBackend(
            provider, "m-1", KEY, clearance, exchange.receipts.append, before_send=depart
        )

    async def send(
        self,
        request: GenerateRequest,
        kind: str = "openai",
        exchange: Exchange | None = None,
        **fields: object,
    ) -> Exchange:
        exchange = exchange if exchange is not None else Exchange()
        exchange.backend = self.backend(request, exchange, self.provider(kind, **fields))
        await exchange.backend.run(request, exchange.events.extend)
        return exchange


@pytest.fixture
def provider_client(sink: Sink) -> ProviderClient:
    """A client that sends to the sink."""
    return ProviderClient(sink)


@pytest.fixture
def chat_request() -> GenerateRequest:
    """A simple chat request."""
    return GenerateRequest(id="r-1", messages=[ChatMessage("user", "Why is the sky blue?")])
