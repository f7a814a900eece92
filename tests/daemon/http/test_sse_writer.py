"""Server-sent event streams: keep-alive comments, errors, disconnects and stalled clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ingle.daemon.http import sse_writer
from ingle.daemon.http.bodies import ClientLeft, encode_event, run_until_disconnect
from ingle.daemon.http.http_protocol import BODY_WRITER, CONNECTION
from ingle.daemon.http.sse_writer import EventStream, EventWriter, StreamStyle
from ingle.daemon.transport.peer import PeerConnection

pytestmark = pytest.mark.quick


class Client:
    """The server side of a connection, as an ASGI application sees it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.status: int | None = None
        self.complete = False
        self.left = asyncio.Event()
        self.reading = asyncio.Event()
        self.reading.set()
        self.paused_at: float | None = None
        self.aborted = asyncio.Event()
        connection = PeerConnection("unix", 0, None, self.aborted.set)
        state = {CONNECTION: connection, BODY_WRITER: self}
        self.scope: dict[str, Any] = {"type": "http", "state": state}

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.drain()
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            assert self.status is not None
            assert message == {"type": "http.response.body", "body": b"", "more_body": False}
            self.complete = True

    def write(self, data: bytes) -> None:
        assert self.status == 200
        assert not self.complete
        self.sent.append(data)

    async def drain(self) -> None:
        await self.reading.wait()

    def stop_reading(self) -> None:
        self.reading.clear()
        self.paused_at = asyncio.get_running_loop().time()

    async def run(self, stream: EventStream) -> None:
        async with asyncio.timeout(5):
            await stream(self.scope, self.receive, self.send)


def error_event(error: Exception) -> bytes:
    return encode_event(str(error).encode(), event="error")


def test_event_encoding() -> None:
    assert encode_event(b"{}") == b"data: {}\n\n"
    assert encode_event(b"{}", event="x", id=7) == b"id: 7\nevent: x\ndata: {}\n\n"


async def test_events_are_written_immediately() -> None:
    client = Client()

    async def produce(out: EventWriter) -> None:
        out.write(b"1")
        out.write(b"2")
        assert (client.sent, client.status) == ([], None)
        await out.send(b"3")
        assert (client.sent, client.status) == ([b"123"], 200)
        out.write(b"4")
        assert client.sent == [b"123", b"4"]

    await client.run(EventStream(produce, style=StreamStyle(on_error=error_event)))
    assert client.complete


async def test_stream_without_events_is_empty() -> None:
    async def produce(out: EventWriter) -> None:
        pass

    client = Client()
    await client.run(EventStream(produce, style=StreamStyle(on_error=error_event)))
    assert (client.sent, client.complete, client.status) == ([], True, 200)


async def test_silence_sends_headers_and_keep_alive_comments() -> None:
    go = asyncio.Event()

    async def produce(out: EventWriter) -> None:
        await go.wait()
        out.write(b"1")

    client = Client()
    stream = EventStream(produce, style=StreamStyle(on_error=error_event), keep_alive=0.02)
    running = asyncio.create_task(client.run(stream))
    async with asyncio.timeout(5):
        while len(client.sent) < 2:
            await asyncio.sleep(0.005)
    assert client.status == 200
    assert set(client.sent) == {sse_writer.COMMENT}
    go.set()
    await running
    assert client.sent[-1] == b"1"
    assert client.complete


async def test_no_keep_alive_comments_between_frequent_events() -> None:
    async def produce(out: EventWriter) -> None:
        for _ in range(20):
            out.write(b"1")
            await asyncio.sleep(0.01)

    client = Client()
    await client.run(EventStream(produce, style=StreamStyle(on_error=error_event), keep_alive=0.15))
    assert client.sent == [b"1"] * 20


async def test_error_before_the_first_event_is_raised() -> None:
    async def produce(out: EventWriter) -> None:
        raise ValueError("early")

    client = Client()
    with pytest.raises(ValueError, match="early"):
        await client.run(EventStream(produce, style=StreamStyle(on_error=error_event)))
    assert client.status is None


async def test_late_error_is_the_last_event() -> None:
    async def produce(out: EventWriter) -> None:
        out.write(b"1")
        raise ValueError("late")

    client = Client()
    await client.run(EventStream(produce, style=StreamStyle(on_error=error_event)))
    assert b"".join(client.sent) == b"1event: error\ndata: late\n\n"
    assert client.complete


@pytest.mark.parametrize("started", [False, True])
async def test_disconnect_cancels_the_producer(started: bool) -> None:
    ended = asyncio.Event()

    async def produce(out: EventWriter) -> None:
        try:
            if started:
                out.write(b"1")
            await asyncio.Event().wait()
        finally:
            ended.set()

    client = Client()
    running = asyncio.create_task(
        client.run(EventStream(produce, style=StreamStyle(on_error=error_event)))
    )
    await asyncio.sleep(0.01)
    client.left.set()
    await running
    assert ended.is_set()
    assert not client.complete


@pytest.mark.parametrize("started", [False, True])
async def test_client_that_reads_nothing_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, started: bool
) -> None:
    monkeypatch.setattr(sse_writer, "STALL_SECONDS", 0.03)
    ended = asyncio.Event()

    async def produce(out: EventWriter) -> None:
        try:
            while True:
                await out.send(b"x")
                await asyncio.sleep(0)
        finally:
            ended.set()

    client = Client()
    if not started:  # an earlier response on the same connection still fills its buffer
        client.stop_reading()
    running = asyncio.create_task(
        client.run(EventStream(produce, style=StreamStyle(on_error=error_event), keep_alive=0.03))
    )
    await asyncio.sleep(0.01)
    client.stop_reading()
    await running
    assert ended.is_set()
    assert client.aborted.is_set()
    assert bool(client.sent) == started
    assert sse_writer.COMMENT not in client.sent


async def test_client_that_stalls_at_the_end_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse_writer, "STALL_SECONDS", 0.03)
    client = Client()

    async def produce(out: EventWriter) -> None:
        await out.send(b"1")
        client.stop_reading()

    await client.run(EventStream(produce, style=StreamStyle(on_error=error_event), keep_alive=0.03))
    assert client.aborted.is_set()
    assert not client.complete


async def test_disconnect_cancels_the_work() -> None:
    client = Client()
    cancelled = asyncio.Event()

    async def work() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()
        return "late"

    running = asyncio.create_task(run_until_disconnect(client.receive, work()))
    await asyncio.sleep(0.01)
    client.left.set()
    with pytest.raises(ClientLeft):
        await running
    assert cancelled.is_set()

    async def quick() -> str:
        return "done"

    assert await run_until_disconnect(Client().receive, quick()) == "done"
