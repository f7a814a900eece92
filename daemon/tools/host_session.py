"""The session of a tool host: tools, calls that run, consents, servers."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path

from ..client.tool_types import (
    AddServer,
    CallOutput,
    CallResult,
    CallTool,
    CancelCall,
    DecideCall,
    EditorAnswer,
    FromHost,
    RemoveServer,
    StartHost,
    ToHost,
    ToolList,
    UndoEdit,
)
from .consent_gate import ConsentGate
from .departures import Departures
from .edit_copies import EditCopies
from .edit_file import EditFile, WriteFile
from .editor_files import EditorFiles
from .fetch_page import FetchPage
from .folder_tools import ListFiles, ReadFile, SearchFiles
from .project_folder import ProjectFolder
from .run_command import RunCommand
from .servers.mcp_servers import McpServers
from .tool import HostedTool, ToolFailed, ToolOutcome, bounded, one_line

log = logging.getLogger("ingle.tools")
_MOST_CALLS = 32


class HostSession:
    """Answers the messages of one client; `send` writes to it."""

    def __init__(self, start: StartHost, config: Path, send: Callable[[FromHost], None]) -> None:
        """`config` has the user's own mcp.json; raises OSError if the folder cannot be used."""
        self._editor = EditorFiles(send, reads=start.editor_reads, writes=start.editor_writes)
        self._folder = ProjectFolder(Path(start.folder), self._editor)
        self._send = send
        self._temporary = Path(tempfile.mkdtemp(prefix="ingle-tools-")).resolve()
        # A private chat leaves nothing on the disk but its edits.
        self._copies = EditCopies(self._temporary if start.private else Path(start.state_folder))
        self._gate = ConsentGate(send, start.consents)
        departures = Departures(start.socket, private=start.private)
        commands = self._temporary / "commands"
        commands.mkdir()
        self._own: list[HostedTool] = [
            ReadFile(self._folder),
            ListFiles(self._folder),
            SearchFiles(self._folder),
            EditFile(self._folder, self._copies),
            WriteFile(self._folder, self._copies),
            RunCommand(self._folder, commands),
        ]
        if not departures.obstacle:
            self._own.append(FetchPage(departures))
        self._servers = McpServers(self._folder.root, departures, self._gate, self._announce)
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._announced: asyncio.Handle | None = None
        self._announce()
        for name, entry in start.servers.items():
            self._servers.add(name, entry)
        self._servers.start_files([Path(name) for name in start.mcp_files], config)

    def handle(self, message: ToHost) -> None:
        """Take a message; what takes time goes on in a task."""
        match message:
            case CallTool(id=call_id):
                self._begin(call_id, partial(self._call, message))
            case UndoEdit(id=call_id):
                self._begin(call_id, partial(self._undo, call_id))
            case DecideCall(id=call_id, choice=choice):
                self._gate.decide(call_id, choice)
            case CancelCall(id=call_id):
                if (task := self._calls.get(call_id)) is not None:
                    task.cancel()
            case AddServer(name=name, entry=entry):
                self._servers.add(name, entry)
            case RemoveServer(name=name):
                self._servers.remove(name)
            case EditorAnswer():
                self._editor.take(message)
            case StartHost():
                log.error("The host was started twice.")

    async def close(self) -> None:
        """End all calls and servers."""
        for task in self._calls.values():
            task.cancel()
        await asyncio.gather(*self._calls.values(), self._servers.close(), return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self._temporary, ignore_errors=True)

    def _begin(self, call_id: str, run: Callable[[], Coroutine[None, None, CallResult]]) -> None:
        if call_id in self._calls:  # no result: it would seem to be that of the call that runs
            log.error("A call was refused, since its id is in use.")
            return
        if len(self._calls) >= _MOST_CALLS:
            self._send(_failure(call_id, f"{_MOST_CALLS} calls run already. Call it again later."))
            return
        task = asyncio.create_task(self._finish(call_id, run))
        self._calls[call_id] = task
        task.add_done_callback(lambda _: self._calls.pop(call_id, None))

    async def _finish(
        self, call_id: str, run: Callable[[], Coroutine[None, None, CallResult]]
    ) -> None:
        """Send the result of a call, whatever happens."""
        try:
            result = await run()
        except ToolFailed as failed:
            result = _failure(call_id, str(failed))
        except asyncio.CancelledError:
            result = _failure(call_id, "The user cancelled the call.")
        except Exception as error:
            log.exception("A tool failed.")
            result = _failure(call_id, f"The tool has a fault: {type(error).__name__}.")
        self._send(result)

    async def _call(self, message: CallTool) -> CallResult:
        tools = {tool.info.name: tool for tool in self._tools()}
        tool = tools.get(message.name)
        if tool is None:
            raise ToolFailed(
                f"There is no tool {one_line(message.name, 60)!r}. There are: {', '.join(tools)}."
            )
        plan = await tool.plan(message.id, message.arguments, partial(self._output, message.id))
        if plan.terms is not None and not await self._gate.ask(message.id, plan.terms):
            text = "The user declined this call. Do not try it again; ask what to do instead."
            summary = f"declined: {plan.terms.title}"
            return CallResult(message.id, text, summary, failed=True, declined=True)
        start = time.monotonic()
        outcome = await plan.run()
        return _result(message.id, outcome, time.monotonic() - start)

    async def _undo(self, call_id: str) -> CallResult:
        return _result(call_id, await asyncio.to_thread(self._copies.undo, call_id, self._folder))

    def _output(self, call_id: str, text: str) -> None:
        self._send(CallOutput(call_id, text))

    def _tools(self) -> list[HostedTool]:
        return [*self._own, *self._servers.tools()]

    def _announce(self) -> None:
        """Send the list of tools once, after all that changes now."""
        if self._announced is None:
            self._announced = asyncio.get_running_loop().call_soon(self._send_tools)

    def _send_tools(self) -> None:
        self._announced = None
        infos = [tool.info for tool in self._tools()]
        self._send(ToolList(infos, self._servers.statuses))


def _result(call_id: str, outcome: ToolOutcome, seconds: float = 0.0) -> CallResult:
    return CallResult(
        call_id,
        bounded(outcome.text, 2 * len(outcome.text) + 1),
        one_line(outcome.summary),
        failed=outcome.failed,
        undoable=outcome.undoable,
        seconds=round(seconds, 3),
    )


def _failure(call_id: str, text: str) -> CallResult:
    return CallResult(call_id, bounded(text), one_line(text.partition("\n")[0]), failed=True)
