"""Tests of event streams: keep-alive, late errors, and clients that leave or stall."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ingle.daemon import sse
from ingle.daemon.http_protocol import CONNECTION
from ingle.daemon.peer import Connection
from ingle.daemon.sse import EventStream, encode_event, run_until_disconnect


class Client:
    """The server's side of a connection, as an ASGI application sees it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.status: int | None = None
        self.complete = False
        self.left = asyncio.Event()
        self.reading = asyncio.Event()
        self.reading.set()
        self.aborted = asyncio.Event()
        connection = Connection("unix", 0, None, self.aborted.set)
        self.scope: dict[str, Any] = {"type": "http", "state": {CONNECTION: connection}}

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.reading.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.sent.append(message["body"])
            self.complete = not message["more_body"]

    async def run(self, stream: EventStream) -> None:
        async with asyncio.timeout(5):
            await stream(self.scope, self.receive, self.send)


def told(error: Exception) -> bytes:
    return encode_event(str(error).encode(), event="error")


def test_an_event_is_lines_and_an_empty_one() -> None:
    assert encode_event(b"{}") == b"data: {}\n\n"
    assert encode_event(b"{}", event="x", id=7) == b"id: 7\nevent: x\ndata: {}\n\n"


async def test_each_event_is_one_message() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"1"
        yield b"2"

    client = Client()
    await client.run(EventStream(frames(), on_error=told))
    assert (client.sent, client.complete, client.status) == ([b"1", b"2", b""], True, 200)


async def test_silence_is_filled_with_comments_and_ends_the_wait_for_headers() -> None:
    go = asyncio.Event()

    async def frames() -> AsyncGenerator[bytes, None]:
        await go.wait()
        yield b"1"

    client = Client()
    running = asyncio.create_task(client.run(EventStream(frames(), on_error=told, keep_alive=0.02)))
    async with asyncio.timeout(5):
        while len(client.sent) < 2:
            await asyncio.sleep(0.005)
    assert client.status == 200
    assert set(client.sent) == {sse.COMMENT}
    go.set()
    await running
    assert client.sent[-2:] == [b"1", b""]


async def test_an_error_before_the_first_event_is_raised() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        raise ValueError("early")
        yield b""

    client = Client()
    with pytest.raises(ValueError, match="early"):
        await client.run(EventStream(frames(), on_error=told))
    assert client.status is None


async def test_a_later_error_is_the_last_event() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"1"
        raise ValueError("late")

    client = Client()
    await client.run(EventStream(frames(), on_error=told))
    assert client.sent == [b"1", b"event: error\ndata: late\n\n", b""]


@pytest.mark.parametrize("started", [False, True])
async def test_a_client_that_leaves_ends_the_frames_at_once(started: bool) -> None:
    ended = asyncio.Event()

    async def frames() -> AsyncGenerator[bytes, None]:
        try:
            if started:
                yield b"1"
            await asyncio.Event().wait()
        finally:
            ended.set()

    client = Client()
    running = asyncio.create_task(client.run(EventStream(frames(), on_error=told)))
    await asyncio.sleep(0.01)
    client.left.set()
    await running
    assert ended.is_set()
    assert not client.complete


async def test_a_client_that_reads_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "STALL_SECONDS", 0.03)
    ended = asyncio.Event()

    async def frames() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0)
        finally:
            ended.set()

    client = Client()
    running = asyncio.create_task(client.run(EventStream(frames(), on_error=told, keep_alive=0.03)))
    await asyncio.sleep(0.01)
    client.reading.clear()
    await running
    assert ended.is_set()
    assert client.aborted.is_set()


async def test_work_is_cancelled_when_its_client_leaves() -> None:
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
    assert await running is None
    assert cancelled.is_set()

    async def quick() -> str:
        return "done"

    assert await run_until_disconnect(Client().receive, quick()) == "done"
