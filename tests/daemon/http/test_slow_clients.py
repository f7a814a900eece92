"""Clients that come slowly, in crowds, or not at all: they hold nothing that others need."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.http import bodies, http_protocol

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]


async def test_headers_that_never_come_are_not_waited_for(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEADER_SECONDS", 0.05)
    for start in (b"", b"GET / HTTP/1.1\r\nHost:"):
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        writer.write(start)
        async with asyncio.timeout(5):
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                continue
            finally:
                writer.close()


async def test_too_many_connections_are_told_so_and_the_unix_socket_stays_open(
    run_daemon: DaemonFactory,
) -> None:
    async with run_daemon(max_connections=3) as daemon:
        held = [await asyncio.open_connection("127.0.0.1", daemon.port) for _ in range(3)]
        await daemon.until(lambda: len(daemon.server.server_state.connections) == 3)
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503")
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert error["code"] == "too_many_connections"
        assert (await daemon.unix.get("/health")).status_code == 200
        for _, open_writer in [*held, (reader, writer)]:
            open_writer.close()


async def test_strangers_leave_room_for_the_owner(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_daemon(max_connections=8) as daemon:
        me = http_protocol.own_uid()
        monkeypatch.setattr(http_protocol, "own_uid", lambda: me + 1)
        held = [await asyncio.open_connection("127.0.0.1", daemon.port) for _ in range(3)]
        async with asyncio.timeout(5):
            refused = await held[2][0].read()  # two are a quarter of eight
        assert refused.startswith(b"HTTP/1.1 503")
        monkeypatch.setattr(http_protocol, "own_uid", lambda: me)
        assert (await daemon.tcp.get("/health")).status_code == 200
        for _, writer in held:
            writer.close()


async def test_blank_lines_keep_no_connection_open(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert await reader.readuntil(b"}") != b""
    monkeypatch.setattr(http_protocol, "HEADER_SECONDS", 0.05)
    async with asyncio.timeout(5):
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
    writer.close()


async def test_the_rest_of_a_refused_body_is_not_waited_for(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "LINGER_SECONDS", 0.05)
    async with run_daemon(max_body_bytes=1024) as daemon:
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        head = b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999\r\n\r\n"
        writer.write(head)
        async with asyncio.timeout(5):
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413")
            with contextlib.suppress(ConnectionError):
                while not reader.at_eof():
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.01)
        writer.close()


async def test_a_body_that_drips_is_a_408(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(bodies, "LEAST_RATE", 10**6)
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999\r\n\r\n"
    writer.write(head)
    answering = asyncio.create_task(reader.readuntil(b"\r\n"))
    async with asyncio.timeout(5):
        while not answering.done():
            writer.write(b" ")  # each in time, but never enough of them
            await asyncio.sleep(0.01)
        assert (await answering).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_who_reads_nothing_of_a_long_answer_is_dropped(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "STALL_SECONDS", 0.05)
    _, writer = await asyncio.open_connection("127.0.0.1", daemon.port, limit=1024)
    assert isinstance(writer.transport, asyncio.Transport)
    writer.transport.pause_reading()
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    connections = daemon.server.server_state.connections

    def ask_on() -> bool:
        writer.write(asked)
        return not connections

    async with asyncio.timeout(20):
        await daemon.until(lambda: len(connections) == 1)
        while not ask_on():
            await asyncio.sleep(0.002)
    writer.close()
