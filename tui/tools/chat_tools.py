"""`ChatTools`: the tool host of the open chat, where tools are on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from ingle.daemon.client.tool_host import HOST_COMMAND, Ask, ToolHost
from ingle.daemon.client.tool_types import (
    CallResult,
    ConsentChoice,
    ConsentRequest,
    EditorAnswer,
    EditorRequest,
    ServerStatus,
    StartHost,
    ToolEffect,
    ToolInfo,
)

from ..chats.command_refused import CommandRefused
from ..chats.history_protocol import NullRecorder
from ..chats.message import RequestedCall, new_id

if TYPE_CHECKING:
    from ingle.daemon.client.async_client import AsyncDaemonClient

    from ..chats.chat import Chat
    from ..chats.history_protocol import ChatRecorder
    from ..settings.chat_folders import ChatFolders

ALL_EFFECTS = frozenset[ToolEffect](("read", "edit", "run", "fetch", "server"))


class ToolUser(Protocol):
    """The session whose open chat has tools."""

    client: AsyncDaemonClient
    folders: ChatFolders | None
    chat: Chat

    @property
    def history(self) -> ChatRecorder: ...


class ChatEditor(Protocol):
    """An editor that the chat runs in: whether it shows and writes files, and asks it to."""

    reads: bool
    writes: bool

    async def answer(self, asked: EditorRequest) -> EditorAnswer: ...


class ChatTools:
    """Starts a host for the open chat when it is needed, and ends that of another chat.

    `ask` asks for the user's consent, None being a no to one call. Only tools with one of `effects`
    are offered to the model. `servers` are MCP servers of this chat, as entries of `mcp.json`.
    """

    def __init__(
        self,
        session: ToolUser,
        ask: Ask,
        command: Sequence[str] = (),
        effects: frozenset[ToolEffect] = ALL_EFFECTS,
        editor: ChatEditor | None = None,
        servers: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self._session = session
        self._ask_user = ask
        self._command = command or HOST_COMMAND
        self.effects = effects
        self._editor = editor
        self._own_servers = servers or {}
        self._host: ToolHost | None = None
        self._of: tuple[str, str] = ("", "")
        self._temporary: Path | None = None
        self._typed: set[str] = set()
        self._diffs: dict[str, str] = {}

    @property
    def tools(self) -> list[ToolInfo]:
        """The tools that the model is offered."""
        host = self._host
        return [] if host is None else [t for t in host.tools if t.effect in self.effects]

    @property
    def servers(self) -> list[ServerStatus]:
        """The MCP servers of the running host."""
        return [] if self._host is None else self._host.servers

    async def prepare(self) -> tuple[dict[str, Any], ...]:
        """Start the host where tools are on, and set the chat's functions; return these.

        Raises `ToolHostFailed`; then the chat has none.
        """
        chat = self._session.chat
        chat.functions = ()
        if chat.settings.tools:
            await self._running(chat.settings.tools)
            chat.functions = tuple(_function(tool) for tool in self.tools)
        return chat.functions

    async def settle(self) -> None:
        """Where tools are on, wait for the servers of this chat; raises `ToolHostFailed`."""
        if self._session.chat.settings.tools:
            host = await self._running(self._session.chat.settings.tools)
            await host.settle()

    async def call(
        self, name: str, call: RequestedCall, output: Callable[[str], object]
    ) -> tuple[CallResult, str]:
        """Run a call of the model under a name of its own; return its result and its diff."""
        host = await self._running(self._session.chat.settings.tools)
        result = await host.call(name, call.name, call.arguments, output)
        return result, self._diffs.pop(name, "")

    async def run_command(self, command: str, output: Callable[[str], object]) -> CallResult:
        """Run a command that the user typed; raises `CommandRefused` and `ToolHostFailed`."""
        host = await self._running(self._session.chat.settings.tools or str(Path.cwd()))
        tool = next((t for t in host.tools if t.effect == "run" and not t.server), None)
        if tool is None:
            raise CommandRefused("Commands cannot be run here: no tool does that.")
        name = new_id()
        self._typed.add(name)
        arguments = msgspec.json.encode({"command": command}).decode()
        return await host.call(name, tool.name, arguments, output)

    async def undo(self, name: str) -> CallResult:
        """Take back the edit of a call; raises `ToolHostFailed`."""
        host = await self._running(self._session.chat.settings.tools or str(Path.cwd()))
        return await host.undo(name)

    async def add_server(self, name: str, entry: dict[str, object]) -> ServerStatus:
        """Start an MCP server, and forget it again if it fails; raises `ToolHostFailed`."""
        host = await self._running(self._session.chat.settings.tools or str(Path.cwd()))
        status = await host.add_server(name, entry)
        if status.state != "ready":
            host.remove_server(name)
        await self.prepare()
        return status

    def remove_server(self, name: str) -> None:
        """End an MCP server, if the host runs."""
        if self._host is not None:
            self._host.remove_server(name)

    async def close(self) -> None:
        """End the host."""
        host, self._host = self._host, None
        if host is not None:
            await host.close()
        if self._temporary is not None:
            import shutil

            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    async def _running(self, folder: str) -> ToolHost:
        chat = self._session.chat
        if self._host is not None and self._of != (chat.id, folder):
            await self.close()
        if self._host is None:
            self._of = (chat.id, folder)
            folders = self._session.folders
            settings = StartHost(
                folder,
                str(self._edits_folder()),
                _mcp_files(folder, folders),
                cast("dict[str, ConsentChoice]", dict(chat.settings.consents)),
                private=chat.temporary,
                socket=self._session.client.endpoint,
                servers=self._own_servers,
                editor_reads=self._editor is not None and self._editor.reads,
                editor_writes=self._editor is not None and self._editor.writes,
            )
            ask_editor = None if self._editor is None else self._editor.answer
            self._host = ToolHost(settings, self._ask, self._command, ask_editor)
        await self._host.start()
        return self._host

    def _edits_folder(self) -> Path:
        chat, folders = self._session.chat, self._session.folders
        if folders is not None and not isinstance(self._session.history, NullRecorder):
            return folders.edits(chat.id)
        import tempfile

        self._temporary = Path(tempfile.mkdtemp(prefix="ingle-edits-"))
        return self._temporary

    async def _ask(self, asked: ConsentRequest) -> ConsentChoice | None:
        if asked.id in self._typed:
            return "once"
        if asked.preview_format == "diff":
            self._diffs[asked.id] = asked.preview
        choice = await self._ask_user(asked)
        if choice in ("always", "never"):
            chat = self._session.chat
            chat.settings.consents = {**chat.settings.consents, asked.scope: choice}
            self._session.history.set_settings(chat.id, chat.settings)
        return choice


def _mcp_files(folder: str, folders: ChatFolders | None) -> list[str]:
    """Return the user's own file of MCP servers and the folder's, whose servers ask first."""
    own = [] if folders is None else [str(folders.config / "mcp.json")]
    return [*own, str(Path(folder) / "mcp.json")]


def _function(tool: ToolInfo) -> dict[str, Any]:
    """Return a tool in the API's format."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}
