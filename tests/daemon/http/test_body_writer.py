"""Response streams over real sockets to clients that read slowly, stall or disconnect."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.http import sse_writer
from ingle.daemon.http.http_protocol import GuardedProtocol

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

LONG_REPLY = {"reply": "x" * 400}
CHOICES = 16
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
)


def connections(daemon: RunningDaemon) -> list[GuardedProtocol]:
    return [c for c in daemon.server.server_state.connections if isinstance(c, GuardedProtocol)]


@asynccontextmanager
async def stalled(daemon: RunningDaemon) -> AsyncGenerator[asyncio.StreamReader]:
    """A client that requested more than the buffers hold, and reads nothing yet."""
    body = json.dumps(
        {
            "model": "echo:1",
            "messages": [{"role": "user", "content": "Hi"}],
            "stream": True,
            "n": CHOICES,
        }
    ).encode()
    reader, writer = await asyncio.open_unix_connection(str(daemon.socket), limit=2**10)
    try:
        writer.write(REQUEST % (len(body), body))
        await daemon.until(lambda: any(c.paused_at is not None for c in connections(daemon)))
        yield reader
    finally:
        writer.close()


async def test_slow_client_receives_the_whole_stream(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script=LONG_REPLY) as daemon, stalled(daemon) as reader:
        answer = b""
        async with asyncio.timeout(10):
            while not answer.endswith(b"0\r\n\r\n"):
                answer += await reader.read(2**16)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head
        text = decode_chunked(body)
        assert text.endswith(b"data: [DONE]\n\n")
        # On a busy machine, comments report the loading of the model.
        events = [event for event in text.split(b"\n\n")[:-2] if not event.startswith(b":")]
        chunks = [json.loads(event.removeprefix(b"data: ")) for event in events]
        answers = [""] * CHOICES
        for chunk in chunks:
            (choice,) = chunk["choices"]
            answers[choice["index"]] += choice["delta"].get("content", "")
        assert answers == [LONG_REPLY["reply"]] * CHOICES


@pytest.mark.slow
async def test_stalled_client_is_disconnected(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse_writer, "STALL_SECONDS", 0.1)
    monkeypatch.setattr(sse_writer.EventStream.__init__, "__kwdefaults__", {"keep_alive": 0.05})
    async with run_daemon(script=LONG_REPLY) as daemon, stalled(daemon):
        await daemon.until(lambda: not connections(daemon))
        await daemon.until(lambda: daemon.leases == 0)


async def test_disconnect_releases_the_lease(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={**LONG_REPLY, "step_seconds": 0.05}) as daemon:
        chat = {"model": "echo:1", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        async for _ in daemon.stream("POST", "/v1/chat/completions", json=chat):
            break
        await daemon.until(lambda: daemon.leases == 0)


def http_1_0(**options: int) -> bytes:
    messages = [{"role": "user", "content": "Hi"}]
    body = {"model": "echo:1", "messages": messages, "stream": True, **options}
    content = json.dumps(body).encode()
    return (REQUEST % (len(content), content)).replace(b"HTTP/1.1", b"HTTP/1.0")


async def connect(
    daemon: RunningDaemon, kind: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if kind == "unix":
        return await asyncio.open_unix_connection(str(daemon.socket))
    return await asyncio.open_connection("127.0.0.1", daemon.port)


@pytest.mark.skipif(sys.platform != "linux", reason="others do not tell a closed end apart")
@pytest.mark.parametrize("kind", ["unix", "tcp"])
async def test_client_that_sends_no_more_is_answered_until_it_closes(
    run_daemon: DaemonFactory, kind: str
) -> None:
    async with run_daemon(script={**LONG_REPLY, "step_seconds": 0.05}) as daemon:
        reader, writer = await connect(daemon, kind)
        writer.write(http_1_0(max_tokens=1))
        writer.write_eof()
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert b" 200 " in head
        # A body of unknown length ends with the connection: HTTP/1.0 knows no chunks.
        assert b"transfer-encoding" not in head
        assert body.startswith((b"data: ", b": loading"))
        assert body.endswith(b"data: [DONE]\n\n")

        reader, writer = await connect(daemon, kind)
        writer.write(http_1_0())
        writer.write_eof()
        await reader.readuntil(b"data: {")
        writer.close()
        await daemon.until(lambda: daemon.leases == 0)


def decode_chunked(body: bytes) -> bytes:
    """The body without chunked transfer encoding."""
    parts: list[bytes] = []
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return b"".join(parts)
        parts.append(body[:length])
        assert body[length : length + 2] == b"\r\n"
        body = body[length + 2 :]
