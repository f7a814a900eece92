"""The plain chat: reads prompts and commands line by line, and writes answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import DaemonUnreachable

from ..chats.chat import Chat
from ..chats.history_protocol import ChatRecorder, NullRecorder
from ..chats.message import Attachment, Message, QueuedPrompt
from ..chats.turn_request import TurnRequest
from ..commands.chat_session import FrontEnd
from ..commands.command_runner import PROBLEMS, run
from ..commands.command_table import COMMANDS, find_slash, parse_slash
from ..commands.privacy_commands import routing_of
from ..history.database.history_errors import HistoryError
from ..privacy.chat_route import request_with_consent, route_to
from ..session.chat_state import ChatState
from ..session.turn import Turn, add_answer, add_prompt
from ..settings.preferences import load_preferences
from ..text import number_format
from ..tools.chat_tools import ChatTools
from ..transcript.entries.answer_entry import AnswerEntry
from .line_front import LineFront
from .line_reader import LineReader
from .plain_compaction import PlainCompaction
from .plain_models import PlainModels
from .plain_output import SPEAKER, PlainOutput, SentenceWriter
from .plain_tools import PlainTools, step_line
from .plain_turn import follow_turn, show_progress

if TYPE_CHECKING:
    from ..history.history_store import HistoryStore
    from ..settings.chat_folders import ChatFolders

YOU = "You"
SHOWN_MESSAGES = 4
PATIENCE = 2.0
"""Seconds to wait for an answer that the daemon has finished."""
INTERRUPTED = 130
"""128 and the number of the signal, as shells count."""


class PlainSession:
    """See `ChatSession`; everything runs sequentially.

    While an answer is generated, only ctrl+c is handled; if the input is a pipe, it ends the
    program.
    """

    def __init__(
        self,
        client: AsyncDaemonClient,
        output: PlainOutput,
        reader: LineReader,
        *,
        folders: ChatFolders | None = None,
        model: str | None = None,
        temporary: bool = False,
        store: HistoryStore | None = None,
        start_daemon: Callable[[], None] | None = None,
    ) -> None:
        self.client = client
        self.output = output
        self.reader = reader
        self.folders = folders
        self.preferences = load_preferences(None if folders is None else folders.config)
        self.store = store
        self.chat = Chat(temporary=temporary)
        self.state = ChatState(wanted=model)
        self.is_answering = False
        output.is_script = not reader.is_person
        self.attachments: list[Attachment] = []
        """Attachments of the next prompt."""
        self.front: FrontEnd = LineFront(self)
        self._compaction = PlainCompaction(self)
        self.models = PlainModels(self, start_daemon)
        self.steps = PlainTools(self)
        self.tools = ChatTools(self, self.steps.consent)
        self._later: list[Coroutine[Any, Any, object]] = []
        self._over = False
        self._interrupted = False

    @property
    def history(self) -> ChatRecorder:
        """The recorder of the open chat."""
        return NullRecorder() if self.chat.temporary or self.store is None else self.store

    # The loop

    def run(self) -> int:
        """Chat until the input ends; return 0, or 1 if something failed and the input is a pipe."""
        with asyncio.Runner() as runner:
            if self.reader.is_person:
                runner.run(self._welcome())
            while not self._over:
                try:
                    text = self.reader.prompt(f"{YOU}: ")
                except KeyboardInterrupt:
                    if self._interrupt():
                        break
                    self.output.line()
                    self.output.line("Ctrl+D or /quit leaves.")
                    continue
                if text is None:
                    break
                if text.strip():
                    self._take(runner, text.strip())
            runner.run(self.tools.close())
        if self._interrupted:
            return INTERRUPTED
        return 1 if self.output.failures and not self.reader.is_person else 0

    def _interrupt(self) -> bool:
        """Handle ctrl+c; return True if it ends the program, as with input from a pipe."""
        self._interrupted = self._over = not self.reader.is_person
        return self._interrupted

    def _take(self, runner: asyncio.Runner, text: str) -> None:
        """Run a command or send a prompt, then the tasks that it queued."""
        try:
            runner.run(self._handle(text))
        except KeyboardInterrupt:
            self.output.line("Stopped.")
            self._interrupt()
        except PROBLEMS as problem:
            self.output.error(problem.message, problem.hint)
        finally:
            for task in self._later:
                task.close()
            self._later.clear()

    async def _handle(self, text: str) -> None:
        slash = parse_slash(text)
        if text.startswith("!") and self.reader.is_person:
            await self._run_command("shell", text[1:].strip())
        elif slash is not None:
            await self._run_command(*slash)
        else:
            self.send(text)
        while self._later:
            await self._later.pop(0)

    async def _run_command(self, name: str, argument: str) -> None:
        command = find_slash(name)
        if command is None:
            self.output.error(f"There is no command /{name} here.", "/help lists them.")
        elif command.name == "quit":
            self._over = True
        elif not command.is_shared:
            self.output.error(f"/{name} works in the full-screen chat only.")
        else:
            # These may go over to another model.
            if command.group == "Models" or (argument and command.name in ("again", "persona")):
                await self.models.refresh()
            result = run(command, self, argument)
            self.front.present(await result if isinstance(result, Awaitable) else result)

    def can_run(self, name: str) -> bool:
        """Whether the command of this name works here."""
        return name == "quit" or any(one.is_shared for one in COMMANDS if one.name == name)

    def then(self, task: Coroutine[Any, Any, object]) -> None:
        """Run `task` after the command."""
        self._later.append(task)

    async def _welcome(self) -> None:
        if self.preferences.trouble:
            self.output.line(self.preferences.trouble)
        if await self.models.connect():
            name = self.state.model_name or "no model"
            kind = "Temporary chat" if self.chat.temporary else "Chat"
            route = route_to(self.client.endpoint)
            where = "on this machine. Nothing you type leaves it."
            if route.kind != "local":
                where = f"which {route.promise}."
            self.output.line(f"{kind} with {name}, {where}")
            await self.models.offer_engine()
            await self.read_history()
        self.output.line("/help lists the commands. Ctrl+C stops an answer. Ctrl+D leaves.")

    async def read_history(self) -> None:
        """Add earlier prompts to readline's history, and complete answers that were left open."""
        if self.store is None or self.store.database.is_locked:
            return
        from ..session.answer_takeover import open_answers

        try:
            self.reader.remember(reversed(self.store.prompts()))
            async for chat, message in open_answers(self.store):
                turn = Turn(self.client, self.store, message, AnswerEntry(""), lambda: None)
                # Received text is kept; the rest is resumed when the chat is opened.
                with suppress(TimeoutError):
                    given = self.store.given(message.id)
                    await asyncio.wait_for(turn.resume(given), PATIENCE)
                state = "is still being written" if turn.ending is None else "is there now"
                last = f"The last answer in “{chat.title}” {state}"
                self.output.line(f"{last}; /open shows the chats.")
        except HistoryError as error:
            self.output.error(error.message, error.hint)

    # The chat

    def open_chat(self, chat: Chat, *, at: str | None = None) -> None:
        """Open a chat, and read out its end or the messages from `at` on."""
        before = [message.content for message in self.chat.path]
        path, self.chat = chat.path, chat
        is_known = [message.content for message in path] == before[: len(path)]
        if path and not is_known:
            found = next((i for i, message in enumerate(path) if message.id == at), None)
            first = max(0, len(path) - SHOWN_MESSAGES) if found is None else found
            shown = path[first : first + SHOWN_MESSAGES]
            read = f"Read out: {first + 1} to {first + len(shown)}."
            self.output.line(f"{chat.title}: {number_format.counted(len(path), 'message')}. {read}")
            for message in shown:
                self._speak(message)
        if chat.settings.model is not None:
            self.state.want(chat.settings.model)
        if path and path[-1].is_open and self.store is not None:
            self.then(self._take_over(path[-1], self.store))

    def read_out(self, name: str) -> None:
        """Write the messages of the path from this one on."""
        path = self.chat.path
        first = next((i for i, message in enumerate(path) if message.id == name), len(path))
        for message in path[first:]:
            self._speak(message)

    def _speak(self, message: Message) -> None:
        if message.facts.step is not None:
            self.output.line(step_line(message.facts.step))
            return
        self.output.line(f"{YOU if message.role == 'user' else SPEAKER}: {message.content}")
        for attachment in message.attachments:
            self.output.line(f"Attached: {attachment.name}.")

    def copy(self, text: str) -> None:
        """Copy text, and report how."""
        from ..terminal.clipboard import copy

        copied = copy(text)
        self.output.ask_terminal(copied.sequence)
        self.output.line(copied.sentence)

    # Sending; each is done after the command that asks for it

    def send(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        """Send a prompt, and write the answer."""
        self.then(self._send(text, attachments))

    def edit(self, message: Message, text: str = "") -> None:
        """Ask for another wording of a prompt, and send it in the place of the prompt."""
        from ..terminal.external_editor import edit_text

        new: str | None = text
        if not text and "\n" in message.content and self.reader.is_person:
            new = edit_text(message.content)
        elif not text:
            new = self.reader.edit("You, edited: ", message.content)
        if new is None or not new.strip() or new.strip() == message.content.strip():
            self.output.line("Nothing is changed. /again asks the same once more.")
            return
        self.then(self._send(new.strip(), message.attachments, edits=message))

    def ask_again(self, parent: Message) -> None:
        """Generate another answer to a prompt; the others stay as branches."""
        self.then(self._answer_from(parent, parent.id))

    def continue_answer(self, message: Message) -> None:
        """Continue an interrupted answer, as another branch with the same beginning."""
        self.then(self._answer_from(message, message.parent, message))

    async def _send(
        self, text: str, attachments: tuple[Attachment, ...], *, edits: Message | None = None
    ) -> None:
        if not await self.models.can_ask():
            return
        attachments = (*attachments, *self.attachments)
        # Text from a pipe is not searched for mentions, since anyone may have written it.
        if "@" in text and self.reader.is_person:
            from ..composing.folder_passages import add_passages

            files, failed = self.read_files(text)
            found, missed = await add_passages(self.client, text, files, Path.cwd())
            for problem in missed:
                self.output.error(problem)
            if (failed or missed) and not self.reader.confirm("Send it all the same?"):
                return
            attachments += found
        prompt = QueuedPrompt(text, attachments, edits)
        if not await self._compaction.make_room(prompt):
            return
        self.attachments = []
        message = add_prompt(self.chat, self.history, text, attachments, edits)
        await self._answer(message.id)

    def read_files(
        self, text: str, promised: Collection[str] = ()
    ) -> tuple[list[Attachment], bool]:
        """Read the mentioned files and report each; whether one of them could not be read."""
        from ..composing.attachment_reader import read_mentions

        reading = read_mentions(text, Path.cwd(), promised)
        for problem in reading.problems:
            self.output.error(problem)
        for attachment in reading.attachments:
            size = number_format.size(attachment.size)
            self.output.line(f"Attached: {attachment.name}, {size}.")
        return reading.attachments, bool(reading.problems)

    async def _answer_from(
        self, end: Message, parent: str | None, begun: Message | None = None
    ) -> None:
        if await self.models.can_ask():
            self.chat.end_path_at(end)
            await self._answer(parent, begun)

    async def _answer(self, parent: str | None, begun: Message | None = None) -> None:
        """Generate an answer to the end of the path, or continue the answer `begun`."""
        name = self.state.model_name
        request = TurnRequest.of(self.chat, name, continues=begun is not None)
        request = await self._prepared(request)
        answer = add_answer(self.chat, self.history, name or "model", parent, begun)
        turn = self._turn(answer, self.history)
        await self._finish(turn, turn.run(request))
        if turn.ending == "answered" and answer.facts.calls:
            await self._run_tools()

    def run_tools(self) -> None:
        """Run the calls at the end of the path that have no result, and go on."""
        self.then(self._run_tools())

    async def _run_tools(self) -> None:
        last = await self.steps.run()
        if last is not None:
            await self._answer(last.id)

    async def _prepared(self, request: TurnRequest) -> TurnRequest:
        """Return the request with its tools and its route, after the user agreed to send it from
        this machine.
        """
        request = msgspec.structs.replace(request, tools=await self.steps.prepared())
        routing = await routing_of(self)
        route = routing.of_chat(self.chat.settings.route, request.model)
        if not route or not routing.has_choice:
            return request
        pick, tell = self.front.pick_route, self.output.line
        return await request_with_consent(
            self.client, request, route, pick, tell, self.state.kept_here
        )

    async def _take_over(self, message: Message, store: HistoryStore) -> None:
        """Follow an answer that another program began and may still record."""
        from ..session.answer_takeover import adopt_final_answer, take_over_answer

        turn = self._turn(message, NullRecorder())
        turn.is_watched = True

        async def follow() -> None:
            if not await take_over_answer(turn, store):
                await adopt_final_answer(turn.message, store)

        await self._finish(turn, follow())

    def _turn(self, message: Message, history: ChatRecorder) -> Turn:
        entry = SentenceWriter(self.output)
        turn = Turn(self.client, history, message, entry, lambda: show_progress(self.output, turn))
        return turn

    async def _finish(self, turn: Turn, task: Coroutine[Any, Any, None]) -> None:
        self.is_answering = True
        try:
            if await follow_turn(turn, task):
                self._interrupt()
        finally:
            self.is_answering = False
        if turn.error is not None:
            self.output.error(turn.error.message, turn.error.hint)
            if isinstance(turn.error, DaemonUnreachable):
                # The next prompt looks for the daemon again.
                self.state.lose(turn.error.message, turn.error.hint)
        self.output.bell()
        self._compaction.report_fill()
