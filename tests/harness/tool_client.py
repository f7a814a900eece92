"""A client of a real tool host, over its pipes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ingle.backends.base.framing import HEADER, frame
from ingle.daemon.client.tool_types import (
    CallOutput,
    CallResult,
    CallTool,
    ConsentChoice,
    ConsentRequest,
    DecideCall,
    FromHost,
    ServerStatus,
    StartHost,
    ToHost,
    ToolList,
    UndoEdit,
)

PATIENCE = 120.0
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromHost)
T = TypeVar("T")


class ToolClient:
    """Sends messages, and answers each question for consent with `choice`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.choice: ConsentChoice | None = "once"
        self.asked: list[ConsentRequest] = []
        self.output = ""
        self.tools = ToolList([])
        self._calls = 0

    async def call(self, tool: str, **arguments: Any) -> CallResult:
        """Call a tool, and return its result."""
        return await self.result(await self.begin(tool, **arguments))

    async def begin(self, tool: str, **arguments: Any) -> str:
        """Call a tool, and return the id of the call."""
        self._calls += 1
        await self.send(CallTool(f"call-{self._calls}", tool, json.dumps(arguments)))
        return f"call-{self._calls}"

    async def undo(self, call_id: str) -> CallResult:
        """Undo an edit."""
        await self.send(UndoEdit(call_id))
        return await self.result(call_id)

    async def result(self, call_id: str) -> CallResult:
        """Return the result of a call."""
        return await self.until(
            lambda m: m if isinstance(m, CallResult) and m.id == call_id else None
        )

    async def question(self) -> ConsentRequest:
        """Return the next question for consent."""
        return await self.until(lambda m: m if isinstance(m, ConsentRequest) else None)

    async def server(self, name: str, *states: str) -> ServerStatus:
        """Return a server's status once it is in one of the states."""

        def found(message: FromHost) -> ServerStatus | None:
            known = message.servers if isinstance(message, ToolList) else ()
            return next((s for s in known if s.name == name and s.state in states), None)

        return found(self.tools) or await self.until(found)

    async def until(self, wanted: Callable[[FromHost], T | None]) -> T:
        """Read messages until one is wanted."""
        async with asyncio.timeout(PATIENCE):
            while (found := wanted(await self.read())) is None:
                pass
        return found

    async def read(self) -> FromHost:
        """Return the next message; raises IncompleteReadError at the end."""
        assert self.process.stdout is not None
        (size,) = HEADER.unpack(await self.process.stdout.readexactly(HEADER.size))
        message: FromHost = _DECODER.decode(await self.process.stdout.readexactly(size))
        if isinstance(message, ToolList):
            self.tools = message
        elif isinstance(message, CallOutput):
            self.output += message.text
        elif isinstance(message, ConsentRequest):
            self.asked.append(message)
            if self.choice is not None:
                await self.send(DecideCall(message.id, self.choice))
        return message

    async def send(self, message: ToHost) -> None:
        """Send a message."""
        await self.send_bytes(frame(msgspec.msgpack.encode(message)))

    async def send_bytes(self, content: bytes) -> None:
        """Send what may be no message."""
        assert self.process.stdin is not None
        self.process.stdin.write(content)
        await self.process.stdin.drain()

    async def end(self) -> int:
        """Close the host's stdin, and return its status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self.read()
                except asyncio.IncompleteReadError:
                    return await self.process.wait()


@asynccontextmanager
async def tool_client(
    folder: Path,
    *,
    servers: dict[str, dict[str, Any]] | None = None,
    environ: dict[str, str] | None = None,
    **start: Any,
) -> AsyncGenerator[ToolClient]:
    """Start a host in a folder; `servers` are those of the user's own mcp.json."""
    home = folder.parent / "home"
    (home / "config").mkdir(parents=True, exist_ok=True)
    own = home / "config/mcp.json"
    own.write_text(json.dumps({"mcpServers": servers or {}}))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "ingle.daemon.tools.tool_host"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "INGLE_HOME": str(home), "TMPDIR": str(home), **(environ or {})},
        limit=1 << 20,
    )
    client = ToolClient(process)
    files = [str(own), str(folder / "mcp.json")]
    await client.send(StartHost(str(folder), str(folder.parent / "state"), files, **start))
    try:
        yield client
    finally:
        if process.returncode is None:
            await client.end()
