"""`ChatAgent`: answers the requests of a client of the Agent Client Protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from acp import PROTOCOL_VERSION, RequestError
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    CloseSessionResponse,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
)

from ..chats.chat import Chat
from ..chats.command_refused import CommandRefused
from ..commands.chat_commands import begin
from ..commands.command_runner import PROBLEMS
from .agent_session import SERVERS, AgentSession
from .client_editor import ClientEditor
from .session_options import AgentMode, mode_state

if TYPE_CHECKING:
    from acp.interfaces import Client
    from acp.schema import AcpMcpServer, ClientCapabilities, SseMcpServer

    from ..history.history_store import HistoryStore
    from ..settings.chat_folders import ChatFolders
    from .prompt_blocks import PromptBlock

    McpServer = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio

LISTED = 50
"""Sessions in one answer."""
NOT_FOUND = -32002
REFUSED = -32602
FAILED = -32603


class ChatAgent:
    """See `acp.interfaces.Agent`; sessions are chats of the history."""

    def __init__(
        self,
        socket_path: str,
        folders: ChatFolders,
        store: HistoryStore,
        model: str | None,
        start_daemon: Callable[[], None],
        version: str,
    ) -> None:
        self._socket_path = socket_path
        self._folders = folders
        self._store = store
        self._model = model
        self._start_daemon = start_daemon
        self._version = version
        self._client: Client | None = None
        self._capabilities: ClientCapabilities | None = None
        self._sessions: dict[str, AgentSession] = {}

    def on_connect(self, conn: Client) -> None:
        """Remember the client."""
        self._client = conn

    async def close(self) -> None:
        """End all sessions."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.close() for session in sessions))

    # Requests

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **kwargs: Any,
    ) -> InitializeResponse:
        """Exchange what both sides can do."""
        self._capabilities = client_capabilities
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_info=Implementation(name="ingle", title="ingle", version=self._version),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                ),
            ),
        )

    async def authenticate(self, method_id: str, **kwargs: Any) -> AuthenticateResponse:
        """Refuse: nothing needs it."""
        raise RequestError(REFUSED, "ingle needs no authentication.")

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **kwargs: Any,
    ) -> NewSessionResponse:
        """Begin a chat; it is kept with its first prompt."""
        session = await self._open(Chat(), cwd, mcp_servers or [], is_new=True)
        return NewSessionResponse(
            session_id=session.chat.id,
            modes=mode_state(session.mode),
            config_options=session.options,
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[McpServer] | None = None,
        additional_directories: list[str] | None = None,
        **kwargs: Any,
    ) -> LoadSessionResponse:
        """Open a kept chat, and send its messages."""
        session = await self._open(await self._load(session_id), cwd, mcp_servers or [])
        await session.replay()
        return LoadSessionResponse(modes=mode_state(session.mode), config_options=session.options)

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **kwargs: Any,
    ) -> ResumeSessionResponse:
        """Open a kept chat whose messages the client has."""
        session = await self._open(await self._load(session_id), cwd, mcp_servers or [])
        return ResumeSessionResponse(modes=mode_state(session.mode), config_options=session.options)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> ListSessionsResponse:
        """Return the chats that have a folder, the newest first."""
        start = int(cursor) if cursor and cursor.isdecimal() else 0
        with _typed_errors():
            found = await asyncio.to_thread(self._listed, cwd)
        after = start + LISTED
        return ListSessionsResponse(
            sessions=found[start:after], next_cursor=str(after) if len(found) > after else None
        )

    async def close_session(self, session_id: str, **kwargs: Any) -> CloseSessionResponse:
        """End a session; its chat stays in the history."""
        await self._session(session_id).close()
        del self._sessions[session_id]
        return CloseSessionResponse()

    async def set_session_mode(
        self, session_id: str, mode_id: str, **kwargs: Any
    ) -> SetSessionModeResponse:
        """Decide what is asked about."""
        self._session(session_id).set_mode(_mode(mode_id))
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **kwargs: Any
    ) -> SetSessionConfigOptionResponse:
        """Set the mode, the model or the thinking."""
        session = self._session(session_id)
        with _typed_errors():
            if config_id == "mode":
                session.set_mode(_mode(str(value)))
            elif config_id == "model":
                await session.set_model(str(value))
            elif config_id == "thought_level":
                session.set_thinking(str(value))
            else:
                raise CommandRefused(f"There is no option {config_id}.")
        return SetSessionConfigOptionResponse(config_options=session.options)

    async def prompt(
        self, session_id: str, prompt: list[PromptBlock], **kwargs: Any
    ) -> PromptResponse:
        """Answer, with tools."""
        session = self._session(session_id)
        with _typed_errors():
            return await session.prompt(prompt, Path(session.chat.settings.tools))

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """Stop what a session does."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.cancel()

    # Sessions

    async def _open(
        self, chat: Chat, cwd: str, servers: list[McpServer], *, is_new: bool = False
    ) -> AgentSession:
        assert self._client is not None
        if not Path(cwd).is_absolute() or not await asyncio.to_thread(Path(cwd).is_dir):
            raise RequestError(REFUSED, f"{cwd} is not a folder with an absolute path.")
        entries = _entries(servers)
        before = self._sessions.pop(chat.id, None)
        if before is not None:
            await before.close()
        session = AgentSession(
            self._client,
            chat,
            self._socket_path,
            folders=self._folders,
            store=self._store,
            model=self._model,
            start_daemon=self._start_daemon,
            editor=ClientEditor(self._client, chat.id, self._capabilities),
            servers=entries,
        )
        with _typed_errors():
            try:
                if is_new:
                    begin(session)
                await session.connect()
            except BaseException:
                await session.close()
                raise
        session.use_folder(cwd)
        self._sessions[chat.id] = session
        # After the answer, since a client knows the session only then.
        asyncio.get_running_loop().call_soon(session.offer_commands)
        return session

    async def _load(self, name: str) -> Chat:
        with _typed_errors():
            chat = await asyncio.to_thread(self._store.load, name)
        if chat is None:
            raise RequestError(NOT_FOUND, f"There is no chat {name}.", {"session": name})
        return chat

    def _session(self, name: str) -> AgentSession:
        session = self._sessions.get(name)
        if session is None:
            raise RequestError(
                NOT_FOUND, f"The session {name} is not open.", {"hint": "session/load opens it."}
            )
        return session

    def _listed(self, cwd: str | None) -> list[SessionInfo]:
        found: list[SessionInfo] = []
        for chat in self._store.recent():
            folder = self._store.settings(chat.id).tools
            if folder and cwd in (None, folder):
                changed = datetime.fromtimestamp(chat.changed, UTC).isoformat()
                title = chat.title or None
                found.append(
                    SessionInfo(session_id=chat.id, cwd=folder, title=title, updated_at=changed)
                )
        return found


@contextmanager
def _typed_errors() -> Generator[None]:
    """Turn problems of the chat into errors of the protocol, with their code and hint."""
    try:
        yield
    except PROBLEMS as error:
        data = {"code": getattr(error, "code", "refused"), "hint": error.hint}
        text = " ".join(filter(None, (error.message, error.hint)))
        number = REFUSED if isinstance(error, CommandRefused) else FAILED
        raise RequestError(number, text, data) from error


def _mode(name: str) -> AgentMode:
    for mode in get_args(AgentMode):
        if mode == name:
            return mode
    raise RequestError(REFUSED, f"There is no mode {name}.")


def _entries(servers: list[McpServer]) -> SERVERS:
    """Return the client's MCP servers as entries of `mcp.json`."""
    entries: SERVERS = {}
    for server in servers:
        if isinstance(server, McpServerStdio):
            env = {variable.name: variable.value for variable in server.env}
            entries[server.name] = {"command": server.command, "args": server.args, "env": env}
        elif isinstance(server, HttpMcpServer):
            headers = {header.name: header.value for header in server.headers}
            entries[server.name] = {"url": server.url, "headers": headers}
        else:
            raise RequestError(
                REFUSED,
                f"The MCP server {server.name} is of type {server.type}: only programs and http "
                "are supported.",
            )
    return entries
