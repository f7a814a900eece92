"""`AsyncDaemonClient`: typed responses, errors, cancellation and event streams."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import DaemonError, DaemonUnreachable
from ingle.daemon.client.daemon_types import Status
from ingle.daemon.client.error_types import read_error
from ingle.daemon.client.model_types import ModelEntries

if TYPE_CHECKING:
    from tests.harness.fake_daemon import FakeDaemon


async def test_response_is_decoded_and_host_header_is_localhost(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon
) -> None:
    answer = await client.request(ModelEntries, "GET", "/ingle/v1/models")
    assert [model.name for model in answer.models] == ["smollm2:135m"]
    assert fake_daemon.requests[0].headers["host"] == "localhost"


async def test_error_response_is_raised_with_all_fields(client: AsyncDaemonClient) -> None:
    with pytest.raises(DaemonError) as caught:
        await client.request_json("GET", "/nowhere")
    assert caught.value.code == "not_found"
    assert caught.value.message == "No such route: /nowhere."
    assert caught.value.status == 404


async def test_response_with_an_unexpected_schema_is_an_error(client: AsyncDaemonClient) -> None:
    with pytest.raises(DaemonError) as caught:
        await client.request(Status, "GET", "/ingle/v1/models")
    assert caught.value.code == "bad_answer"


async def test_missing_socket_is_unreachable(tmp_path: object) -> None:
    client = AsyncDaemonClient(f"{tmp_path}/none.sock")
    with pytest.raises(DaemonUnreachable):
        await client.request_json("GET", "/health")


async def test_interrupted_event_stream_is_unreachable(
    client: AsyncDaemonClient, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("never", gate_before=0)
    await client.request_json("POST", "/ingle/v1/generations", {"messages": []})

    async def follow() -> None:
        stream = client.events("/ingle/v1/generations/gen-1/events?after=0")
        async with aclosing(stream) as events:
            async for _ in events:
                await fake_daemon.stop()

    with pytest.raises(DaemonUnreachable):
        await follow()


async def test_cancelled_request_closes_the_connection() -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if not await reader.read():
            closed.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    client = AsyncDaemonClient(address=(host, port))
    task = asyncio.create_task(client.request_json("GET", "/slow"))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait_for(closed.wait(), 5)
    server.close()


async def test_events_split_across_http_chunks_over_tcp() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"id: 1\nevent: delta\ndata: " + json.dumps({"text": "é"}).encode() + b"\n\n"
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for byte in body:
            writer.write(b"1\r\n" + bytes([byte]) + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    client = AsyncDaemonClient(address=(host, port))
    events = [event async for event in client.events("/events")]
    assert [(event.id, event.event) for event in events] == [("1", "delta")]
    assert json.loads(events[0].data) == {"text": "é"}
    server.close()


@pytest.mark.parametrize(
    ("content", "message", "code"),
    [
        (b'{"error": {"message": "No.", "code": "x", "hint": null}}', "No.", "x"),
        (b'{"error": {"message": "No.", "type": "t", "code": null}}', "No.", "error"),
        (b"<html>", "The daemon answered with HTTP status 502.", "error"),
    ],
)
def test_read_error(content: bytes, message: str, code: str) -> None:
    error = read_error(content, 502)
    assert (error.message, error.code) == (message, code)
