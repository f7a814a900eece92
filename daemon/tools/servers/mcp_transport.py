"""Connections to MCP servers that bound what a server can send."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from ..departures import Departure, Departures
from ..guarded_process import end_guarded, plain_environment, start_guarded
from ..tool import ToolFailed, one_line
from .mcp_config import ServerEntry, expanded

MOST_BYTES = 16 * 2**20
"""Of what a server may send after a message to it, and of one message."""
_MOST_MESSAGES = 5_000
_TAIL = 2_000


Unreachable = httpx2.ConnectError
"""The error of a connection to an address where none is made."""


class Inflow:
    """Counts what a server sends since it was last asked something."""

    def __init__(self, on_flood: Callable[[], None]) -> None:
        self._on_flood = on_flood
        self.refusal = 0
        """The status of the last answer by HTTP that was an error."""
        self.reset()

    def reset(self) -> None:
        """Begin anew: the server was asked."""
        self._bytes, self._messages = MOST_BYTES, _MOST_MESSAGES

    def add(self, size: int) -> None:
        """Count a message or a piece; raises `ToolFailed` and reports it above the limits."""
        self._bytes -= size
        self._messages -= 1
        if self._bytes < 0 or self._messages < 0:
            self._on_flood()
            raise ToolFailed("The server sends too much.")


class ServerProgram:
    """A server that runs as a child: its messages are lines of its output."""

    def __init__(self, entry: ServerEntry, environ: dict[str, str], folder: Path) -> None:
        self._entry = entry
        self._environ = environ
        self._folder = folder
        self.complaint = ""
        """The last line that it wrote to stderr."""

    @asynccontextmanager
    async def connect(self, inflow: Inflow, on_end: Callable[[], None]) -> AsyncGenerator[Any]:
        """Start it, and yield the streams of a session; raises OSError if it cannot be started.

        Its environment has the variables of its entry and those that each program needs.
        """
        entry = self._entry
        home = {
            name: self._environ[name] for name in ("HOME", "USERPROFILE") if name in self._environ
        }
        environment = plain_environment(self._environ) | home | expanded(entry.env)
        if shutil.which(entry.command, path=environment.get("PATH")) is None:
            raise FileNotFoundError(entry.command)
        process = await start_guarded(
            [entry.command, *entry.args],
            environment,
            self._folder,
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MOST_BYTES,
        )
        into, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, out_of = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._receive(process, into, inflow, on_end)),
            asyncio.create_task(self._send(process, out_of, inflow)),
            asyncio.create_task(self._listen(process)),
        ]
        try:
            yield read, write
        finally:
            for task in tasks:
                task.cancel()
            for stream in (into, read, write, out_of):
                stream.close()
            await asyncio.shield(end_guarded(process))

    async def _receive(
        self,
        process: asyncio.subprocess.Process,
        into: Any,
        inflow: Inflow,
        on_end: Callable[[], None],
    ) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                inflow.add(len(line))
                try:
                    message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    continue  # what libraries print
                await into.send(SessionMessage(message))
        except ValueError:  # a line above the limit
            inflow.add(MOST_BYTES + 1)
        except (ToolFailed, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return  # the session ends, or has ended
        finally:
            into.close()
            on_end()

    async def _send(self, process: asyncio.subprocess.Process, out_of: Any, inflow: Inflow) -> None:
        assert process.stdin is not None
        try:
            async for message in out_of:
                inflow.reset()
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
        except OSError:
            return  # it has ended

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Read what it writes to stderr, so that it is not held up."""
        assert process.stderr is not None
        tail = b""
        while chunk := await process.stderr.read(1 << 14):
            tail = (tail + chunk)[-_TAIL:]
            lines = tail.decode("utf-8", "replace").strip().splitlines()
            self.complaint = one_line(lines[-1]) if lines else ""


@asynccontextmanager
async def connect_by_http(
    name: str, entry: ServerEntry, departures: Departures, inflow: Inflow
) -> AsyncGenerator[Any]:
    """Yield the streams of a session with a server at a URL.

    Each request to another machine is in the ledger.
    """
    transport = _BoundedTransport(name, entry, departures, inflow)
    headers = expanded(entry.headers) | {"Accept-Encoding": "identity"}
    timeout = httpx2.Timeout(30.0, read=600.0)
    client = httpx2.AsyncClient(
        headers=headers, timeout=timeout, transport=transport, trust_env=False
    )
    async with client, streamable_http_client(entry.url, http_client=client) as streams:
        yield streams


class _BoundedTransport(httpx2.AsyncBaseTransport):
    def __init__(
        self, name: str, entry: ServerEntry, departures: Departures, inflow: Inflow
    ) -> None:
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)
        self._name = "mcp:" + "".join(one if one.isalnum() else "-" for one in ascii(name)[1:41])
        self._host = entry.remote_host
        self._departures = departures
        self._inflow = inflow

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._inflow.reset()
        departure = None
        if self._host:
            departure = await self._departures.begin(self._name, self._host)
            departure.sent = len(await request.aread())
        try:
            answer = await self._inner.handle_async_request(request)
        except BaseException:
            if departure is not None:
                await asyncio.shield(departure.settle("failed"))
            raise
        if answer.is_error and request.method == "POST":
            self._inflow.refusal = answer.status_code
        if answer.headers.get("content-encoding", "identity") != "identity":
            await answer.aclose()
            raise httpx2.DecodingError("The server compresses, though that was not asked for.")
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        answer.stream = _BoundedStream(answer.stream, self._inflow, departure)
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(
        self, inner: httpx2.AsyncByteStream, inflow: Inflow, departure: Departure | None
    ) -> None:
        self._inner = inner
        self._inflow = inflow
        self._departure = departure

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._inflow.add(len(chunk))
            if self._departure is not None:
                self._departure.received += len(chunk)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
        departure, self._departure = self._departure, None
        if departure is not None:
            await asyncio.shield(departure.settle("complete"))
