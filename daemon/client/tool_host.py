"""`ToolHost`: the process that runs tools, started in a chat's folder and asked over its pipes."""

from __future__ import annotations

import asyncio
import struct
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress

import msgspec

from .client_errors import ClientError
from .tool_types import (
    AddServer,
    CallOutput,
    CallResult,
    CallTool,
    CancelCall,
    ConsentChoice,
    ConsentRequest,
    DecideCall,
    EditorAnswer,
    EditorRequest,
    FromHost,
    HostError,
    ReadEditor,
    RemoveServer,
    ServerStatus,
    StartHost,
    ToHost,
    ToolInfo,
    ToolList,
    UndoEdit,
    WriteEditor,
)

HOST_COMMAND = (sys.executable, "-P", "-m", "ingle.daemon.tools.tool_host")
_HEADER = struct.Struct("<I")
"""A little-endian u32 before each message: its bytes."""
MAX_MESSAGE = 64 * 2**20
PATIENCE = 3.0
"""Seconds that a host has to end after its input was closed."""
KEPT_ERRORS = 2000
"""Bytes of the host's error output that are kept."""

Ask = Callable[[ConsentRequest], Awaitable[ConsentChoice | None]]
AskEditor = Callable[[EditorRequest], Awaitable[EditorAnswer]]
_CallEvent = ConsentRequest | CallOutput | CallResult


class ToolHostFailed(ClientError):
    """The tool host could not start, or ended."""

    code = "tool_host_failed"


class ToolHost:
    """A tool host, started when it is first needed, and again after it ended.

    `ask` is called for each call that needs consent; None declines this call only. Choices that
    hold for the chat are added to the `consents` of `settings`, so that a new host knows them.
    `ask_editor` is called if `settings` say that there is an editor.
    """

    def __init__(
        self,
        settings: StartHost,
        ask: Ask,
        command: Sequence[str] = HOST_COMMAND,
        ask_editor: AskEditor | None = None,
    ) -> None:
        self.settings = settings
        self._ask = ask
        self._ask_editor = ask_editor
        self._command = command
        self._process: Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._calls: dict[str, asyncio.Queue[_CallEvent]] = {}
        self._errors = b""
        self._trouble = ""
        self._list = ToolList([])
        self._changed = asyncio.Event()
        self._starting = asyncio.Lock()
        self._asking: set[asyncio.Task[None]] = set()
        """Questions for which no call waits."""

    @property
    def tools(self) -> list[ToolInfo]:
        """The tools as last reported."""
        return self._list.tools

    @property
    def servers(self) -> list[ServerStatus]:
        """The MCP servers as last reported."""
        return self._list.servers

    async def start(self) -> None:
        """Start the host unless it runs, and wait for its tools; raises `ToolHostFailed`."""
        async with self._starting:
            if self._process is not None:
                return
            self._trouble, self._errors = "", b""
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=PIPE,
                    cwd=self.settings.folder,
                    start_new_session=True,  # ctrl+c is for the chat
                )
            except OSError as error:
                raise ToolHostFailed(
                    f"Tools cannot start in {self.settings.folder}: {error.strerror or error}.",
                    "/tools on, in another folder, uses that one.",
                ) from error
            self._process = process
            self._changed.clear()
            self._readers = [
                asyncio.create_task(self._read_messages(process)),
                asyncio.create_task(self._read_errors(process)),
            ]
            self._send(self.settings)
            await self._wait_for_change()

    async def call(
        self,
        id: str,  # noqa: A002
        name: str,
        arguments: str,
        output: Callable[[str], object] = lambda text: None,
    ) -> CallResult:
        """Run a tool, with the user's consent where needed; `output` gets what it writes.

        A host that ends gives a failed result. A cancelled call ends in the host as well.
        """
        try:
            await self.start()
        except ToolHostFailed as failed:
            return _failed(id, failed.message)
        try:
            return await self._follow(CallTool(id, name, arguments), output)
        except asyncio.CancelledError:
            self._send(CancelCall(id))
            raise

    async def undo(self, id: str) -> CallResult:  # noqa: A002
        """Put back what the edit of a call replaced; raises `ToolHostFailed`."""
        await self.start()
        return await self._follow(UndoEdit(id), lambda text: None)

    async def add_server(self, name: str, entry: dict[str, object]) -> ServerStatus:
        """Start one more MCP server, and wait until it has tools or failed.

        Raises `ToolHostFailed`.
        """
        await self.start()
        self._changed.clear()
        self._send(AddServer(name, entry))
        while True:
            await self._wait_for_change()
            self._changed.clear()
            for server in self.servers:
                if server.name == name and server.state != "starting":
                    return server

    def remove_server(self, name: str) -> None:
        """End an MCP server, if the host runs; `servers` has it no longer."""
        self._send(RemoveServer(name))
        left = [server for server in self.servers if server.name != name]
        self._list = msgspec.structs.replace(self._list, servers=left)

    async def settle(self) -> None:
        """Wait until each server of the settings has started or failed.

        Raises `ToolHostFailed`.
        """
        await self.start()
        waiting = set(self.settings.servers)
        while waiting := waiting - {s.name for s in self.servers if s.state != "starting"}:
            self._changed.clear()
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        await self._changed.wait()
        if self._process is None:
            raise ToolHostFailed(self._trouble)

    async def close(self) -> None:
        """End the host: by closing its input, else by force."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), PATIENCE)
        except TimeoutError:
            self._kill(process)
            await process.wait()
        await asyncio.gather(*self._readers)

    # Messages

    async def _follow(
        self, message: CallTool | UndoEdit, output: Callable[[str], object]
    ) -> CallResult:
        queue = self._calls[message.id] = asyncio.Queue()
        try:
            self._send(message)
            while True:
                event = await queue.get()
                if isinstance(event, CallResult):
                    return event
                if isinstance(event, CallOutput):
                    output(event.text)
                elif not await self._decide(event):
                    self._send(CancelCall(message.id))
                    text = "The user declined this call. Do not repeat it."
                    return CallResult(message.id, text, "declined", declined=True)
        finally:
            del self._calls[message.id]

    async def _decide(self, asked: ConsentRequest) -> bool:
        """Send the user's answer; False if there is none."""
        choice = await self._ask(asked)
        if choice is None:
            return False
        if choice != "once":
            self.settings.consents[asked.scope] = choice
        self._send(DecideCall(asked.id, choice))
        return True

    def _send(self, message: ToHost) -> None:
        """Write a message; one to a host that ended is dropped, since its calls have failed."""
        if self._process is not None and self._process.stdin is not None:
            body = msgspec.msgpack.encode(message)
            self._process.stdin.write(_HEADER.pack(len(body)) + body)

    async def _read_messages(self, process: Process) -> None:
        assert process.stdout is not None
        decoder = msgspec.msgpack.Decoder(FromHost)
        trouble = ""
        try:
            while True:
                (length,) = _HEADER.unpack(await process.stdout.readexactly(_HEADER.size))
                if length > MAX_MESSAGE:
                    raise msgspec.DecodeError(f"a message of {length} bytes")
                self._take(decoder.decode(await process.stdout.readexactly(length)))
        except asyncio.IncompleteReadError:
            pass  # it has ended; why is in its error output
        except msgspec.DecodeError as error:
            trouble = f"The tool host sent what is no message ({error}), and was ended."
            self._kill(process)
        status = await process.wait()
        await asyncio.gather(*self._readers[1:])
        self._ended(trouble or self._trouble or self._reason(status))

    def _take(self, message: FromHost) -> None:
        if isinstance(message, ToolList):
            self._list = message
            self._changed.set()
        elif isinstance(message, HostError):
            self._trouble = message.message
        elif isinstance(message, ReadEditor | WriteEditor):
            self._begin(self._answer_editor(message))
        elif message.id in self._calls:
            self._calls[message.id].put_nowait(message)
        elif isinstance(message, ConsentRequest):
            self._begin(self._decide_start(message))

    def _begin(self, answer: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(answer)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answer_editor(self, asked: EditorRequest) -> None:
        if self._ask_editor is not None:
            self._send(await self._ask_editor(asked))

    async def _decide_start(self, asked: ConsentRequest) -> None:
        """Ask about the start of a server, for which no call waits."""
        if not await self._decide(asked):
            self._send(DecideCall(asked.id, "never"))  # not kept: the next host asks again

    async def _read_errors(self, process: Process) -> None:
        assert process.stderr is not None
        while data := await process.stderr.read(4096):
            self._errors = (self._errors + data)[-KEPT_ERRORS:]

    def _ended(self, trouble: str) -> None:
        """Fail the running calls of a host that ended."""
        self._trouble = trouble
        self._process = None
        self._changed.set()
        for name, queue in self._calls.items():
            queue.put_nowait(_failed(name, f"{trouble} The next call starts it again."))

    def _reason(self, status: int) -> str:
        lines = self._errors.decode(errors="replace").strip().splitlines()
        how = f"with status {status}" if status >= 0 else f"by signal {-status}"
        return f"The tool host ended {how}{': ' + lines[-1] if lines else ''}."

    @staticmethod
    def _kill(process: Process) -> None:
        with suppress(ProcessLookupError):
            process.kill()


def _failed(id: str, why: str) -> CallResult:  # noqa: A002
    return CallResult(id, why, why, failed=True)
