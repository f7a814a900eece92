"""Slow or stalled clients and too many connections: timeouts and limits free their resources."""

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


async def test_incomplete_headers_time_out(
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


async def test_connection_limit_is_503_and_spares_the_unix_socket(
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


async def test_other_users_cannot_use_up_the_owners_connections(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_daemon(max_connections=8) as daemon:
        me = http_protocol.own_uid()
        monkeypatch.setattr(http_protocol, "own_uid", lambda: me + 1)
        held = [await asyncio.open_connection("127.0.0.1", daemon.port) for _ in range(3)]
        async with asyncio.timeout(5):
            refused = await held[2][0].read()  # other users get a quarter of the connections
        assert refused.startswith(b"HTTP/1.1 503")
        monkeypatch.setattr(http_protocol, "own_uid", lambda: me)
        assert (await daemon.tcp.get("/health")).status_code == 200
        for _, writer in held:
            writer.close()


async def test_blank_lines_do_not_keep_a_connection_open(
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


async def test_rest_of_a_refused_body_is_not_awaited(
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


async def test_body_below_the_minimum_rate_is_408(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(bodies, "LEAST_RATE", 10**6)
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999\r\n\r\n"
    writer.write(head)
    first_line = asyncio.create_task(reader.readuntil(b"\r\n"))
    async with asyncio.timeout(5):
        while not first_line.done():
            writer.write(b" ")  # each byte is in time, but the rate is too low
            await asyncio.sleep(0.01)
        assert (await first_line).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_client_that_reads_nothing_is_disconnected(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "STALL_SECONDS", 0.05)
    _, writer = await asyncio.open_connection("127.0.0.1", daemon.port, limit=1024)
    assert isinstance(writer.transport, asyncio.Transport)
    writer.transport.pause_reading()
    request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    connections = daemon.server.server_state.connections

    def send_again() -> bool:
        writer.write(request)
        return not connections

    async with asyncio.timeout(20):
        await daemon.until(lambda: len(connections) == 1)
        while not send_again():
            await asyncio.sleep(0.002)
    writer.close()
