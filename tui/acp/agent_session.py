"""`AgentSession`: one chat that a client of ACP has open."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from acp import helpers
from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    PromptResponse,
    SessionInfoUpdate,
    StopReason,
    UnstructuredCommandInput,
    Usage,
    UsageUpdate,
)

from ingle.daemon.client.client_errors import DaemonUnreachable

from ..chats.command_refused import CommandRefused
from ..commands.chat_session import keep_settings
from ..commands.command_table import COMMANDS, find_slash
from ..commands.models_commands import model as choose_model
from ..plain.line_reader import LineReader
from ..plain.plain_session import PlainSession
from ..plain.plain_turn import follow_turn
from ..session.chat_client import chat_client
from ..session.turn import Turn
from .client_editor import ClientEditor
from .prompt_blocks import PromptBlock, read_prompt
from .session_options import DEFAULT, THINKING, AgentMode, SessionOption, session_options
from .session_output import AnswerUpdates, SessionOutput
from .session_steps import SessionSteps, SessionTools
from .tool_updates import call_begun, call_ended, tool_kind
from .update_queue import UpdateQueue

if TYPE_CHECKING:
    from pathlib import Path

    from acp.interfaces import Client

    from ..chats.chat import Chat
    from ..chats.history_protocol import ChatRecorder
    from ..chats.message import Message
    from ..history.history_store import HistoryStore
    from ..settings.chat_folders import ChatFolders

USABLE = frozenset(
    (
        *("again", "continue", "system", "sampling", "think", "template", "mcp", "rename"),
        *("model", "unload", "ctx", "compact", "trim", "undo", "context", "stats"),
        *("route", "why"),
    )
)
"""The chat's commands that need no screen, ask nothing, and stay in the session's chat."""
SERVERS = dict[str, dict[str, Any]]
"""MCP servers by name, as entries of `mcp.json`."""


class AgentSession(PlainSession):
    """A plain chat whose reader is a client: its answers, calls and questions are messages."""

    def __init__(
        self,
        peer: Client,
        chat: Chat,
        socket_path: str,
        *,
        folders: ChatFolders,
        store: HistoryStore,
        model: str | None,
        start_daemon: Callable[[], None],
        editor: ClientEditor,
        servers: SERVERS,
    ) -> None:
        self.updates = UpdateQueue(peer, chat.id)
        self.peer = peer
        self.mode: AgentMode = "ask"
        output = SessionOutput(self.updates)
        super().__init__(
            chat_client(socket_path),
            output,
            LineReader(output, io.StringIO()),  # stdin has the client's messages
            folders=folders,
            model=model,
            store=store,
            start_daemon=start_daemon,
        )
        self.chat = chat
        self.said = output
        self.steps = self._steps = SessionSteps(self)
        self._editor = editor
        self.tools = SessionTools(self, self.steps.consent, editor=editor, servers=servers)
        self._prompt: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._last: Turn | None = None

    # Requests of the client

    def use_folder(self, folder: str) -> None:
        """Let tools work in a folder."""
        if self.chat.settings.tools != folder:
            self.chat.settings.tools = folder
            keep_settings(self)

    async def connect(self) -> None:
        """Find the chat's model, starting the daemon if needed; raises `CommandRefused`."""
        if self.chat.settings.model is not None:
            self.state.want(self.chat.settings.model)
        if not await self.models.connect():
            raise self._problem()

    async def prompt(self, blocks: list[PromptBlock], folder: Path) -> PromptResponse:
        """Answer a prompt or run a command; raises one of `PROBLEMS`."""
        if self._prompt is not None:
            raise CommandRefused("The chat is still answering.", "Cancel that first.")
        self.said.problems.clear()
        self._last, self._is_cancelled = None, False
        self._steps.is_out_of_rounds = False
        title = self.chat.title
        self._prompt = asyncio.create_task(self._take_blocks(blocks, folder))
        try:
            await self._prompt
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise  # the client is gone
            return PromptResponse(stop_reason="cancelled")
        finally:
            self._prompt = None
            for task in self._later:
                task.close()
            self._later.clear()
            self._report(title)
            await self.updates.drain()
        return PromptResponse(stop_reason=self._stop_reason(), usage=self._usage())

    def cancel(self) -> None:
        """Stop the answer or the call that runs."""
        if self._prompt is not None:
            self._is_cancelled = True
            self._prompt.cancel()

    def set_mode(self, mode: AgentMode) -> None:
        """Decide what is asked about from now on."""
        self.mode = mode
        self.updates.put(
            CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode)
        )

    async def set_model(self, name: str) -> None:
        """Answer with another model; raises one of `PROBLEMS`."""
        if name != DEFAULT:
            await self.models.refresh()
            await choose_model(self, name)

    def set_thinking(self, value: str) -> None:
        """Set how much to reason; raises `CommandRefused`."""
        value = "" if value == DEFAULT else value
        if value not in THINKING:
            raise CommandRefused(
                f"There is no thinking {value}.", f"There are {', '.join(THINKING)}."
            )
        self.chat.settings.thinking = value
        keep_settings(self)

    @property
    def options(self) -> list[SessionOption]:
        """What the user can choose, with the current values."""
        state = self.state
        return session_options(
            self.mode, state.models, state.model_name, self.chat.settings.thinking
        )

    def offer_commands(self) -> None:
        """Tell the client the slash commands."""
        commands = [
            AvailableCommand(
                name=command.slash,
                description=command.help,
                input=_input(command.argument),
            )
            for command in COMMANDS
            if command.name in USABLE and command.slash is not None and not command.within
        ]
        self.updates.put(
            AvailableCommandsUpdate(
                session_update="available_commands_update", available_commands=commands
            )
        )

    async def replay(self) -> None:
        """Send the messages of the chat; the next prompt waits for an answer that is open."""
        folder = self.chat.settings.tools
        for message in self.chat.path:
            if message.role == "user":
                files = "".join(f"\n[{attachment.name}]" for attachment in message.attachments)
                self.updates.put(helpers.update_user_message_text(message.content + files))
            elif message.facts.step is not None:
                kind = tool_kind(message.facts.step.call.name, {})
                self.updates.put(call_begun(message, kind, folder))
                self.updates.put(call_ended(message, folder))
            else:
                sink = AnswerUpdates(self.updates)
                sink.append_reasoning(message.reasoning)
                sink.append(message.content)
                sink.finish()
        await self.updates.drain()

    async def close(self) -> None:
        """End what runs, and the tool host."""
        prompt = self._prompt
        if prompt is not None:
            prompt.cancel()
            await asyncio.gather(prompt, return_exceptions=True)
        await self.tools.close()
        await self.updates.close()

    # The chat

    def read_out(self, name: str) -> None:
        """Nothing: the client shows the chat."""

    async def _take_blocks(self, blocks: list[PromptBlock], folder: Path) -> None:
        text, files = await read_prompt(blocks, folder, self._editor)
        if not text and not files:
            raise CommandRefused("The prompt is empty.", "Write some text.")
        if self.chat.path and self.chat.path[-1].is_open and self.store is not None:
            await self._take_over(self.chat.path[-1], self.store)
        self.attachments = list(files)
        try:
            await self._handle(text)
        except CommandRefused as refused:
            self.said.error(refused.message, refused.hint)
        answered = self._last is not None and self._last.ending in ("answered", "length")
        if self.said.problems and not answered:
            raise self._problem()
        for message, hint in self.said.problems:
            self.said.line(" ".join(filter(None, (message, hint))))

    async def _run_command(self, name: str, argument: str) -> None:
        command = find_slash(name)
        if command is None or command.name not in USABLE:
            raise CommandRefused(f"There is no command /{name} here.")
        if command.name == "mcp" and argument not in ("", "list"):
            raise CommandRefused(
                "/mcp only lists here.", "Add servers to mcp.json, or in your editor."
            )
        await super()._run_command(name, argument)

    def _turn(self, message: Message, history: ChatRecorder) -> Turn:
        return Turn(self.client, history, message, AnswerUpdates(self.updates), lambda: None)

    async def _finish(self, turn: Turn, task: Coroutine[Any, Any, None]) -> None:
        self._last = turn
        self.is_answering = True
        try:
            if await follow_turn(turn, task):
                raise asyncio.CancelledError
        finally:
            self.is_answering = False
        if turn.context:
            self.updates.put(
                UsageUpdate(
                    session_update="usage_update", used=turn.context_used, size=turn.context
                )
            )
        if isinstance(turn.error, DaemonUnreachable):
            # The next prompt starts the daemon.
            self.state.lose(turn.error.message, turn.error.hint)
        if turn.error is not None:
            raise turn.error

    def _problem(self) -> CommandRefused:
        """Return the problems so far as one."""
        messages = [message for message, _ in self.said.problems]
        hints = [hint for _, hint in self.said.problems if hint]
        return CommandRefused(" ".join(messages), " ".join(hints) or None)

    def _report(self, title: str) -> None:
        """Send what may have changed: the title, and the choices."""
        if self.chat.title != title:
            self.updates.put(
                SessionInfoUpdate(session_update="session_info_update", title=self.chat.title)
            )
        self.updates.put(
            ConfigOptionUpdate(session_update="config_option_update", config_options=self.options)
        )

    def _stop_reason(self) -> StopReason:
        if self._steps.is_out_of_rounds:
            return "max_turn_requests"
        if self._last is not None and self._last.ending == "length":
            return "max_tokens"
        return "end_turn"

    def _usage(self) -> Usage | None:
        turn = self._last
        if turn is None:
            return None
        return Usage(
            total_tokens=turn.context_used,
            input_tokens=turn.prompt_tokens,
            output_tokens=turn.tokens,
            cached_read_tokens=turn.cached_tokens,
        )


def _input(argument: str | None) -> AvailableCommandInput | None:
    return (
        None if argument is None else AvailableCommandInput(UnstructuredCommandInput(hint=argument))
    )
