"""A minimal HTTP client, since it shares the cores with the measured server."""

from __future__ import annotations

import asyncio
import json
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

_HEAD = (
    "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    "Accept: text/event-stream\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
)

Arrivals = Sequence[tuple[int, float]]
"""How many bytes had come by when, ascending."""


class RequestFailed(Exception):
    """A server answered with an error, or with nothing."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"status {status}: {body[:300]}")
        self.status = status


@dataclass(frozen=True)
class Request:
    """What to post, and where."""

    path: str
    body: dict[str, object]


@dataclass(frozen=True)
class Answer:
    """One streamed answer; times are seconds since its batch of requests was sent."""

    times: tuple[float, ...]
    """When each event with text came, ascending; nearly always one a token."""
    tokens: int
    prompt_tokens: int
    """0 if the server does not report it, as for `cached_tokens`."""
    cached_tokens: int
    text: str

    @property
    def first(self) -> float:
        """When the first text came."""
        return self.times[0]

    @property
    def last(self) -> float:
        """When the last text came."""
        return self.times[-1]


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    completion_tokens: int = 0
    prompt_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Event(msgspec.Struct):
    """As much of an event as matters here, in the form of completions or of chats."""

    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw()

    @property
    def text(self) -> str:
        return "".join(
            choice.text or (choice.delta.content if choice.delta else None) or ""
            for choice in self.choices
        )


class _Recorder(asyncio.Protocol):
    """Records received data with times; parsing waits until all streams are over."""

    def __init__(self, request: bytes, closed: asyncio.Future[None]) -> None:
        self.received = bytearray()
        self.arrivals: list[tuple[int, float]] = []
        self._request = request
        self._closed = closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.arrivals.append((len(self.received), time.perf_counter()))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)


async def ask(port: int, requests: Sequence[Request]) -> list[Answer]:
    """Send all requests at once, a connection each, and read their event streams to the end.

    Raises `RequestFailed`.
    """
    loop = asyncio.get_running_loop()
    closed: list[asyncio.Future[None]] = [loop.create_future() for _ in requests]
    encoded = [_encode(port, request) for request in requests]
    start = time.perf_counter()
    connections = await asyncio.gather(
        *(
            loop.create_connection(
                lambda content=content, end=end: _Recorder(content, end), "127.0.0.1", port
            )
            for content, end in zip(encoded, closed, strict=True)
        )
    )
    await asyncio.gather(*closed)
    return [
        read_answer(bytes(recorder.received), [(n, at - start) for n, at in recorder.arrivals])
        for _, recorder in connections
    ]


def _encode(port: int, request: Request) -> bytes:
    content = json.dumps(request.body).encode()
    return _HEAD.format(path=request.path, port=port, length=len(content)).encode() + content


def read_answer(received: bytes, arrivals: Arrivals) -> Answer:
    """The answer in a whole HTTP response; raises `RequestFailed` unless it is a stream of text."""
    head, _, body = received.partition(b"\r\n\r\n")
    status = int(head[9:12]) if head.startswith(b"HTTP/1.") else 0
    chunked = b"transfer-encoding: chunked" in head.lower()
    offset = len(head) + 4
    parts = list(_chunks(received, offset)) if chunked else [(body, len(received))]
    if status != 200:
        raise RequestFailed(status, b"".join(part for part, _ in parts).decode(errors="replace"))
    texts: list[tuple[str, float]] = []
    usage = _Usage()
    for event, end in _events(parts):
        if event.error:
            raise RequestFailed(status, bytes(event.error).decode(errors="replace"))
        usage = event.usage or usage
        if event.text:
            texts.append((event.text, _when(end, arrivals)))
    if not texts:
        raise RequestFailed(status, "a stream without text")
    return Answer(
        times=tuple(at for _, at in texts),
        tokens=usage.completion_tokens or len(texts),
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.prompt_tokens_details.cached_tokens
        if usage.prompt_tokens_details
        else 0,
        text="".join(text for text, _ in texts),
    )


def _chunks(received: bytes, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield each HTTP chunk, and the offset after it in the received data."""
    while True:
        line = received.find(b"\r\n", offset)
        size = int(received[offset:line].split(b";")[0], 16) if line > offset else 0
        if not size:
            return
        begin = line + 2
        yield received[begin : begin + size], begin + size
        offset = begin + size + 2


def _events(parts: Sequence[tuple[bytes, int]]) -> Iterator[tuple[_Event, int]]:
    """Each JSON event, and the offset by which it was complete."""
    decoder = msgspec.json.Decoder(_Event)
    rest = b""
    for part, end in parts:
        *lines, rest = (rest + part).split(b"\n")
        complete = end - len(rest) - sum(len(line) + 1 for line in lines)
        for line in lines:
            complete += len(line) + 1
            if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                yield decoder.decode(line[5:]), complete


def _when(offset: int, arrivals: Arrivals) -> float:
    index = bisect_left(arrivals, offset, key=lambda arrival: arrival[0])
    return arrivals[min(index, len(arrivals) - 1)][1]
