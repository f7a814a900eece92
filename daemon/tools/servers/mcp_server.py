"""One MCP server: its connection, its tools as it describes them now, calls of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import mcp_types
import msgspec
from anyio import ClosedResourceError
from mcp import Client, MCPError
from pydantic import ValidationError

from ...client.tool_types import ServerState, ServerStatus
from ...terminal.unsafe_characters import without_unsafe
from ..departures import Departures
from ..tool import ToolFailed, counted, one_line
from .mcp_config import InvalidMcpConfig, ServerEntry
from .mcp_transport import Inflow, ServerProgram, Unreachable, connect_by_http

MOST_TOOLS = 64
_MOST_PAGES = 10
_MOST_SCHEMA = 16_000
_START_SECONDS = 60.0
_LIST_SECONDS = 10.0
_CALL_SECONDS = 300.0
_RELIST_SECONDS = 1.0


class ServerTool(msgspec.Struct, frozen=True):
    """A tool as its server describes it, `name` and texts as they came."""

    name: str
    description: str
    schema: dict[str, Any]


class ServerAnswer(msgspec.Struct, frozen=True):
    """The content of a call's result."""

    text: str
    failed: bool


class McpServer:
    """Connects, stays connected, and connects again for a call after the connection has ended.

    `changed` is called when state or tools are others.
    """

    def __init__(
        self,
        name: str,
        entry: ServerEntry,
        folder: Path,
        departures: Departures,
        changed: Callable[[], None],
    ) -> None:
        self.name = name
        self.entry = entry
        self.tools: list[ServerTool] = []
        self._folder = folder
        self._departures = departures
        self._changed = changed
        self._client: Client | None = None
        self._state: ServerState = "starting"
        self._message = ""
        self._left_out = 0
        self._wake = asyncio.Event()
        self._wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._was_ready = False
        self._ended = False
        self._flooded = False
        self._inflow = Inflow(self._on_flood)
        self._program: ServerProgram | None = None

    @property
    def status(self) -> ServerStatus:
        """Return its state, in a sentence if it failed."""
        message = self._message
        if self._left_out:
            left_out = counted(self._left_out, "tool")
            message = f"Left out: {left_out}, since they are too many or their parameters too long."
        return ServerStatus(self.name, self._state, len(self.tools), message)

    async def run(self) -> None:
        """Connect, and stay until the task is cancelled, the first connection fails, or a flood."""
        while True:
            self._ended = False
            self._wake.clear()
            try:
                if self.entry.remote_host and self._departures.obstacle:
                    raise ToolFailed(self._departures.obstacle)
                await self._serve()
            except asyncio.CancelledError:
                self._set("stopped", "")
                raise
            except Exception as error:  # whatever a server does is its own failure
                self._set("failed", self._reason(error))
            if not self._was_ready:
                return
            await self._wanted.wait()
            self._set("starting", "")

    async def refresh(self) -> list[ServerTool]:
        """Return its tools as it describes them now; raises `ToolFailed`."""
        if self._state == "failed" and self._was_ready:
            self._settled.clear()
            self._wanted.set()
        if self._was_ready:
            await self._settled.wait()
        client = self._client
        if client is None:
            raise ToolFailed(f"The server {self.name} is not running. {self._message}".strip())
        known = self.tools
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                await self._list_tools(client)
        except Exception as error:
            raise ToolFailed(f"The server {self.name} failed: {self._reason(error)}") from error
        if self.tools != known:
            self._changed()
        return self.tools

    async def call(self, tool: str, arguments: dict[str, Any]) -> ServerAnswer:
        """Call a tool; raises `ToolFailed`."""
        client = self._client
        if client is None:
            raise ToolFailed(f"The server {self.name} is not running. {self._message}".strip())
        # Not `call_tool`: it would check the result by a schema that the server chose.
        request = mcp_types.CallToolRequest(
            params=mcp_types.CallToolRequestParams(name=tool, arguments=arguments)
        )
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                result = await client.session.send_request(request, mcp_types.CallToolResult)
        except Exception as error:
            raise ToolFailed(f"The server {self.name} failed: {self._reason(error)}") from error
        return ServerAnswer(_text(result), result.is_error)

    async def _serve(self) -> None:
        inflow = self._inflow = Inflow(self._on_flood)
        if self.entry.url:
            transport = connect_by_http(self.name, self.entry, self._departures, inflow)
        else:
            self._program = ServerProgram(self.entry, dict(os.environ), self._folder)
            transport = self._program.connect(inflow, self._on_end)
        client = Client(
            transport,
            message_handler=self._on_message,
            client_info=mcp_types.Implementation(name="ingle", version="0"),
            cache=None,
        )
        start = asyncio.timeout(_START_SECONDS)
        async with start, client:
            await self._list_tools(client)
            start.reschedule(None)
            self._client = client
            self._set("ready", "")
            try:
                await self._stay()
            finally:
                self._client = None

    async def _list_tools(self, client: Client) -> None:
        """Read its tools, and keep those that are fit to be offered, at most `MOST_TOOLS`."""
        found: dict[str, ServerTool | None] = {}
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = mcp_types.PaginatedRequestParams(cursor=cursor)
            page = await client.session.list_tools(params=params)
            for tool in page.tools:
                schema = _plain(tool.input_schema)
                text = tool.description or tool.title or ""
                takes_object = schema.setdefault("type", "object") == "object"
                fits = takes_object and len(msgspec.json.encode(schema)) <= _MOST_SCHEMA
                found.setdefault(tool.name, ServerTool(tool.name, text, schema) if fits else None)
            cursor = page.next_cursor
            if cursor is None or len(found) >= MOST_TOOLS:
                break
        self.tools = [tool for tool in found.values() if tool is not None][:MOST_TOOLS]
        self._left_out = len(found) - len(self.tools)

    async def _stay(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._ended:
                raise ToolFailed("It has ended.")
            await asyncio.sleep(_RELIST_SECONDS)
            await self.refresh()

    async def _on_message(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._wake.set()

    def _on_flood(self) -> None:
        self._flooded = True
        self._was_ready = False  # it is not started again
        self._on_end()

    def _on_end(self) -> None:
        self._ended = True
        self._wake.set()

    def _set(self, state: ServerState, message: str) -> None:
        self._state, self._message = state, message
        self._was_ready = self._was_ready or state == "ready"
        if not self._was_ready or state == "stopped":
            self.tools, self._left_out = [], 0
        if state == "starting":
            self._wanted.clear()
        else:
            self._settled.set()
        self._changed()

    def _reason(self, error: BaseException) -> str:
        if self._flooded:
            return "It sent more than is allowed, so it was stopped."
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        if isinstance(error, TimeoutError):
            return "It did not answer in time."
        if isinstance(error, FileNotFoundError):
            return f"{self.entry.command} was not found. Install it, or correct the command."
        if isinstance(error, Unreachable):
            return f"{self.entry.url} cannot be reached: {_sentence(str(error))}"
        if isinstance(error, MCPError) and self._inflow.refusal:
            return _answered(self.entry.url, self._inflow.refusal)
        if isinstance(error, (ValidationError, RuntimeError)):
            return "Its answer does not follow the protocol."
        if isinstance(error, ToolFailed | InvalidMcpConfig):
            text = str(error)
        elif isinstance(error, MCPError) and not self._ended:
            text = one_line(error.message)
        elif isinstance(error, MCPError | ClosedResourceError):
            text = "It has ended."
        else:
            text = one_line(f"{type(error).__name__}: {error}")
        complaint = self._program.complaint if self._program is not None else ""
        if complaint and self._ended:
            return f"It has ended. Its last line was: {_sentence(complaint)}"
        return _sentence(text)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _answered(url: str, status: int) -> str:
    if status in (401, 403):
        return f"{url} refused access (HTTP {status}). Add its key to mcp.json under headers."
    return f"{url} answered HTTP {status}, as no MCP server does. Check the address."


def _plain(value: Any) -> Any:
    """Return a JSON value with its strings safe to show; depth is bounded by its parser."""
    if isinstance(value, str):
        return without_unsafe(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {without_unsafe(name): _plain(item) for name, item in members.items()}
    return [_plain(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _text(result: mcp_types.CallToolResult) -> str:
    parts: list[str] = []
    for block in result.content:
        if isinstance(block, mcp_types.TextContent):
            parts.append(block.text)
        elif isinstance(block, mcp_types.EmbeddedResource) and isinstance(
            block.resource, mcp_types.TextResourceContents
        ):
            parts.append(block.resource.text)
        elif isinstance(block, mcp_types.ResourceLink):
            parts.append(f"[link to {block.uri}]")
        else:
            parts.append(f"[{block.type}, not shown]")
    if not parts and result.structured_content is not None:
        parts.append(msgspec.json.encode(result.structured_content).decode())
    return "\n".join(parts)
