"""The worst requests of each protocol: none holds the event loop for longer than `LIMIT`."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from tests.harness.loop_watchdog import LIMIT, LoopWatchdog

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

TRIES = 5
"""A request holds the loop only if it does so each time: a busy machine slows its processor."""
LONG = "a" * (15 * 2**20)
MANY = 2**17
HI = [{"role": "user", "content": "Hi"}]
BIASES = {str(token): 1 for token in range(2**16)}
SCHEMA = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(40_000)}}
CALLED = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
FLAT_TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
NUMBERS = {"prompt": [1] * 1_000_000}
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
OLLAMA, NATIVE, PLAIN = "/api/chat", "/ingle/v1/generations", "/completion"


def said(content: object) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


QUICK: dict[str, tuple[str, dict[str, Any]]] = {
    "biases": (CHAT, {"messages": HI, "logit_bias": BIASES}),
    "unknown": (CHAT, {"messages": HI, **{f"k{i}": 1 for i in range(MANY)}}),
    "included": (RESPONSES, {"input": "Hi", "include": [f"x{i}" for i in range(500_000)]}),
    "fields": (PLAIN, {"prompt": "Hi", "response_fields": ["a/b"] * 1_000_000}),
    "name": (CHAT, {"model": LONG, "messages": HI}),
    "embedded numbers": ("/v1/embeddings", {"input": [1] * 1_000_000}),
    "text and numbers": ("/tokenize", {"content": ["a", 1] * 500_000}),
}  # fmt: skip
REST: dict[str, tuple[str, dict[str, Any]]] = {
    "biases, llama.cpp": (PLAIN, {"prompt": ["Hi"] * 64, "logit_bias": BIASES}),
    "tools": (RESPONSES, {"input": "Hi", "tools": [FLAT_TOOL] * 20_000}),
    "kinds of tools": (CHAT, {"messages": HI, "tools": [{"type": f"t{i}"} for i in range(50_000)]}),
    "variables": (CHAT, {"messages": HI, "chat_template_kwargs": {"k": [[]] * MANY}}),
    "explained": ("/ingle/v1/routing/explain", {"messages": said("4539 5787 6362 1486 " * 9_000)}),
    "biases, responses": (RESPONSES, {"input": "Hi", "logit_bias": BIASES}),
    "pairs of biases": (PLAIN, {"prompt": "Hi", "logit_bias": [[n, 1] for n in range(2**16)]}),
    "schema": (CHAT, {"messages": HI, "tools": [TOOL]}),
    "unknown options": (OLLAMA, {"messages": HI, "options": {f"k{i}": 1 for i in range(MANY)}}),
    "stops": (CHAT, {"messages": HI, "stop": ["a"] * 1_000_000}),
    "samplers": (PLAIN, {"prompt": "Hi", "samplers": ["a"] * 1_000_000}),
    "embedded lists": ("/v1/embeddings", {"input": [[]] * MANY}),
    "ranked": ("/v1/rerank", {"query": "a", "documents": ["a"] * 1_000_000}),
    "messages": (CHAT, {"messages": HI * 30_000}),
    "messages, Anthropic": (MESSAGES, {"messages": HI * 30_000, "max_tokens": 2}),
    "messages, Ollama": (OLLAMA, {"messages": HI * 30_000}),
    "messages, counted": ("/ingle/v1/tokens", {"messages": HI * 30_000, "load": True}),
    "messages, rendered": ("/apply-template", {"messages": HI * 30_000}),
    "messages, explained": ("/ingle/v1/routing/explain", {"messages": HI * 30_000}),
    "items": (RESPONSES, {"input": HI * 50_000}),
    "items, compacted": (RESPONSES + "/compact", {"input": HI * 50_000}),
    "parts": (RESPONSES, {"input": said([{"type": "input_text", "text": "a"}] * 60_000)}),
    "calls": (CHAT, {"messages": [{"role": "assistant", "tool_calls": [CALLED] * 30_000}, *HI]}),
    "schema of an answer": (OLLAMA, {"messages": HI, "format": SCHEMA}),
    "long text": (CHAT, {"messages": said(LONG)}),
    "long escapes": (CHAT, {"messages": said("\n" * 7 * 2**20)}),
    "long text, responses": (RESPONSES, {"input": LONG}),
    "long text, Ollama": ("/api/generate", {"prompt": LONG}),
    "long text, native": (NATIVE, {"messages": said(LONG)}),
    "long text, llama.cpp": (PLAIN, {"prompt": LONG}),
    "long stop": (CHAT, {"messages": HI, "stop": LONG}),
    "long field": (CHAT, {"messages": HI, LONG: 1}),
    "numbers": ("/v1/completions", NUMBERS),
    "numbers, llama.cpp": (PLAIN, NUMBERS),
    "pieces": ("/tokenize", {"content": "a" * 2**20, "with_pieces": True}),
    "numbers, tokens": ("/tokenize", {"content": [1] * 1_000_000}),
    "text of numbers": ("/detokenize", {"tokens": [65] * 1_000_000}),
}


async def post(daemon: RunningDaemon, path: str, body: dict[str, Any]) -> None:
    content = json.dumps({"model": "echo:1", "stream": False, **body})
    answer = await daemon.tcp.post(path, content=content, timeout=100)
    assert answer.status_code < 500, answer.text[:300]


Attack = Callable[["RunningDaemon"], Awaitable[None]]


def posted(bodies: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, Attack]:
    return {name: partial(post, path=path, body=body) for name, (path, body) in bodies.items()}


async def check(
    run_daemon: DaemonFactory, watchdog: LoopWatchdog, attacks: dict[str, Attack]
) -> None:
    watchdog.limit = LIMIT
    holding: dict[str, str] = {}
    async with run_daemon(create_backend=WorkerProcess) as daemon:
        await post(daemon, CHAT, {"messages": HI})
        for name, attack in attacks.items():
            for _ in range(TRIES):
                watchdog.held.clear()
                await attack(daemon)
                if not watchdog.held:
                    break
            else:
                holding[name] = "\n".join(map(str, watchdog.held))
        watchdog.held.clear()
    assert not holding, "\n".join(f"{name}: {held}" for name, held in holding.items())


async def test_bodies_do_not_hold_the_loop(
    run_daemon: DaemonFactory, loop_watchdog: LoopWatchdog
) -> None:
    await check(run_daemon, loop_watchdog, posted(QUICK))


def frame(opcode: int, data: bytes = b"", *, last: bool = True) -> bytes:
    """A client's frame of a WebSocket, masked with zeros."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xff" + struct.pack(">Q", len(data))
    return bytes([last << 7 | opcode]) + size + bytes(4) + data


CREATE = b'{"type":"response.create","model":"echo:1","input":%b}'
ITEM = b'{"role":"user","content":"Hi"}'
FRAMES = {
    "pings": frame(9) * 60_000,
    "empty texts": frame(1) * 20_000,
    "empty pieces": frame(1, b"{", last=False) + frame(0, last=False) * 60_000,
}
LONG_FRAMES = {
    "long text": frame(1, CREATE % (b'"%b"' % LONG.encode())),
    "items": frame(1, CREATE % (b"[%b%b]" % ((ITEM + b",") * 50_000, ITEM))),
}
HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Version: 13\r\n\r\n"
)


async def send(daemon: RunningDaemon, head: bytes, data: bytes, end: bytes) -> None:
    """Send a head, what follows its answer, and an end whose answer shows that all was read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    writer.write(head)
    if head is HANDSHAKE:
        await reader.readuntil(b"\r\n\r\n")
    reading = asyncio.create_task(reader.read())
    with suppress(OSError):
        for start in range(0, len(data), 2**18):
            writer.write(data[start : start + 2**18])
            await writer.drain()
        writer.write(end)
    with suppress(OSError):
        await asyncio.wait_for(reading, 100)
    writer.close()


def framed(frames: dict[str, bytes]) -> dict[str, Attack]:
    return {
        name: partial(send, head=HANDSHAKE, data=data, end=frame(8))
        for name, data in frames.items()
    }


CHUNKS: dict[str, Attack] = {
    path: partial(
        send,
        head=b"POST %b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: %b\r\nConnection: close\r\n\r\n" % (path.encode(), media),
        data=b"1\r\n-\r\n" * 80_000,
        end=b"0\r\n\r\n",
    )
    for path, media in (
        (CHAT, b"application/json"),
        ("/v1/files", b"multipart/form-data; boundary=x"),
    )
}


async def test_frames_and_chunks_do_not_hold_the_loop(
    run_daemon: DaemonFactory, loop_watchdog: LoopWatchdog
) -> None:
    await check(run_daemon, loop_watchdog, framed(FRAMES) | CHUNKS)


@pytest.mark.slow
async def test_long_bodies_do_not_hold_the_loop(
    run_daemon: DaemonFactory, loop_watchdog: LoopWatchdog
) -> None:
    await check(run_daemon, loop_watchdog, posted(REST) | framed(LONG_FRAMES))


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_the_watchdog_names_what_takes_the_processor() -> None:
    watchdog = LoopWatchdog()

    async def holding() -> None:
        burn(2 * LIMIT)

    async def waiting() -> None:
        time.sleep(2 * LIMIT)  # noqa: ASYNC251 - another process may have the processor

    with watchdog.installed():
        await asyncio.create_task(holding())
        with watchdog.watching():
            tasks = [asyncio.create_task(holding()), asyncio.create_task(waiting())]
        await asyncio.gather(*tasks)
    (held,) = watchdog.held
    assert held.seconds >= 2 * LIMIT
    assert "in burn" in held.stack
