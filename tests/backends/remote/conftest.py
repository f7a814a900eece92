"""A sink that writes down every byte that comes, and answers as a test tells it to."""

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
        """The loop of the daemon, which hands bytes to the system in its own way."""
        return {"uvloop": uvloop.new_event_loop}


KEY = "sk-test-8f2b1c"

Respond = Callable[["Visit"], Awaitable[None]]


@dataclass(eq=False)
class Visit:
    """One connection: what came over it, and what to answer with."""

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
    """Listens on a port of its own; `respond` says what each visit gets."""

    respond: Respond | None = None
    visits: list[Visit] = field(default_factory=list[Visit])
    sent: int = 0
    port: int = 0

    @property
    def received(self) -> int:
        return sum(len(visit.received) for visit in self.visits)

    def always(
        self, body: bytes, status: str = "200 OK", *headers: str, kind: str = "text/event-stream"
    ) -> None:
        """Answer every visit alike."""

        async def respond(visit: Visit) -> None:
            await visit.answer(body, status, *headers, kind=kind)

        self.respond = respond

    def sse(self, *events: object, done: bool = True) -> bytes:
        """OpenAI's events."""
        parts = [b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events]
        return b"".join(parts) + (b"data: [DONE]\n\n" if done else b"")

    def chunk(self, content: str | None = None, finish: str | None = None, **delta: object):
        """One of them."""
        if content is not None:
            delta["content"] = content
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    @property
    def hello(self) -> bytes:
        """A whole answer."""
        return self.sse(
            self.chunk(role="assistant"),
            self.chunk("Hel"),
            self.chunk("lo"),
            self.chunk(finish="stop"),
            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = Visit(reader, writer)
        self.visits.append(visit)
        try:
            await visit.read_request()
            assert self.respond is not None
            await self.respond(visit)
            writer.close()
            while data := await reader.read(65536):
                visit.received += data
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            visit.gone.set()


@pytest.fixture
async def sink() -> AsyncGenerator[Sink]:
    """The sink, listening."""
    found = Sink()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()
    for visit in found.visits:
        visit.writer.close()
    await server.wait_closed()


@dataclass(eq=False)
class Asked:
    """A request that a backend sent: its events, its receipt, and the order of what happened."""

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
    def thoughts(self) -> str:
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


class Asker:
    """Asks the sink as a provider of some kind."""

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

    def nothing_yet(self) -> Asked:
        return Asked()

    def backend(self, request: GenerateRequest, asked: Asked, provider: Provider) -> RemoteBackend:
        async def depart(size: int) -> None:
            asked.departures += 1

        clearance = Clearance(
            digest=request_digest(request),
            provider=provider.name,
            model="m-1",
            verdict="cloud",
            rule="test",
        )
        return RemoteBackend(
            provider, "m-1", KEY, clearance, asked.receipts.append, before_send=depart
        )

    async def ask(
        self,
        request: GenerateRequest,
        kind: str = "openai",
        asked: Asked | None = None,
        **fields: object,
    ) -> Asked:
        asked = asked if asked is not None else Asked()
        asked.backend = self.backend(request, asked, self.provider(kind, **fields))
        await asked.backend.run(request, asked.events.extend)
        return asked


@pytest.fixture
def asker(sink: Sink) -> Asker:
    """Asks the sink."""
    return Asker(sink)


@pytest.fixture
def question() -> GenerateRequest:
    """A plain question."""
    return GenerateRequest(id="r-1", messages=[ChatMessage("user", "Why is the sky blue?")])
