"""A provider that is a real HTTP server on this machine, and records every byte it receives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.providers import Provider, ProviderKind
from ingle.backends.remote.receipt import Receipt
from ingle.backends.remote.remote_backend_factory import RemoteBackends


@dataclass
class Sink:
    """Serves OpenAI's chat completions; `received` contains all bytes of all connections."""

    port: int = 0
    received: bytearray = field(default_factory=bytearray)
    answer: str = "Hello from the cloud."
    status: int = 200
    connections: int = 0

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON bodies of all requests."""
        found: list[dict[str, Any]] = []
        for request in bytes(self.received).split(b"POST /")[1:]:
            found.append(json.loads(request.partition(b"\r\n\r\n")[2]))
        return found

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.received += head
            lengths = [
                int(line.partition(b":")[2])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            ]
            self.received += await reader.readexactly(lengths[0])
            writer.write(self._reply())
            await writer.drain()
        finally:
            writer.close()

    def _reply(self) -> bytes:
        if self.status != 200:
            return b"HTTP/1.1 %d No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % self.status
        pieces: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": self.answer}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}},
        ]
        common = {"id": "x", "object": "chat.completion.chunk", "model": "big", "created": 1}
        events = [b"data: " + json.dumps(common | piece).encode() + b"\n\n" for piece in pieces]
        body = b"".join([*events, b"data: [DONE]\n\n"])
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
        return head + b"content-length: %d\r\n\r\n" % len(body) + body


@pytest.fixture
async def sink() -> AsyncGenerator[Sink]:
    """A running sink."""
    recorder = Sink()
    server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0)
    recorder.port = server.sockets[0].getsockname()[1]
    yield recorder
    server.close()


@dataclass
class SinkExits:
    """Egress whose only provider is the sink, through real remote backends."""

    sink: Sink
    refuses: str = ""
    cleared: list[Clearance] = field(default_factory=list[Clearance])
    receipts: list[Receipt] = field(default_factory=list[Receipt])

    def providers(self) -> Sequence[Provider]:
        return [
            Provider(
                name="sink",
                kind=ProviderKind.OPENAI,
                base_url=f"http://127.0.0.1:{self.sink.port}/v1",
                models=("big",),
                own=True,
                retries=0,
            )
        ]

    def trouble(self, provider: Provider) -> str:
        return self.refuses

    async def backend(
        self, clearance: Clearance, request: GenerateRequest, *, retried: bool = True
    ) -> RequestBackend:
        async def depart(size: int) -> None:
            self.cleared.append(clearance)

        return RemoteBackends(offline=False).make(
            self.providers()[0],
            clearance.model,
            None,
            clearance,
            self.receipts.append,
            before_send=depart,
        )


@pytest.fixture
def egress(sink: Sink) -> SinkExits:
    """Egress to the sink."""
    return SinkExits(sink)
