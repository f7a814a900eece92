"""`PlainSession`: one chat as lines, from the first prompt to the end of the input."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from ..chats.chat import Chat
from ..chats.history_protocol import ChatRecorder, NullRecorder
from ..chats.message import Attachment, Message
from ..chats.turn_request import TurnRequest
from ..client.api_types import ModelEntry, ModelList
from ..client.client_errors import ClientError, DaemonUnreachable
from ..client.daemon_client import AsyncDaemonClient
from ..commands.command_table import parse_slash
from ..history.database.history_errors import HistoryError
from ..privacy.chat_route import route_to
from ..session.model_choice import choose_model
from ..session.turn import Turn
from ..settings.preferences import load_preferences
from ..text import number_format
from .line_reader import LineReader
from .plain_commands import PlainCommands
from .plain_output import PlainOutput
from .sentence_writer import SPEAKER, SentenceWriter

if TYPE_CHECKING:
    from ..history.history_store import HistoryStore
    from ..settings.chat_folders import ChatFolders

YOU = "You"
LONG_PROMPT = 2000
"""Tokens to be read that are worth a line."""
INTERRUPTED = 130
"""128 and the number of the signal, as shells count."""

R = TypeVar("R")


class PlainSession:
    """Reads prompts and commands, and writes answers; `store` keeps the chats, where there is one.

    Everything is done one after the other: while an answer comes, only ctrl+c is heard. Where
    nobody types, that ends the program.
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
        self.wanted = model
        self.model: ModelEntry | None = None
        self.attachments: list[Attachment] = []
        """What goes along with the next prompt."""
        self._start_daemon = start_daemon
        self._commands = PlainCommands(self)
        self._runner = asyncio.Runner()
        self._over = False
        self._interrupted = False

    @property
    def history(self) -> ChatRecorder:
        """Where the chat is kept."""
        return NullRecorder() if self.chat.temporary or self.store is None else self.store

    def run(self) -> int:
        """Chat until the input ends; 0, or 1 where something failed and nobody sat there."""
        with self._runner:
            if self.reader.is_person:
                self._welcome()
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
                self._take(text.strip())
        if self._interrupted:
            return INTERRUPTED
        return 1 if self.output.failures and not self.reader.is_person else 0

    def leave(self) -> None:
        """End after this command."""
        self._over = True

    def _interrupt(self) -> bool:
        """ctrl+c: where nobody types it ends the program; whether it does."""
        self._interrupted = self._over = not self.reader.is_person
        return self._interrupted

    def wait(self, task: Coroutine[Any, Any, R]) -> R:
        """Run something to its end; ctrl+c raises `KeyboardInterrupt`."""
        return self._runner.run(task)

    def _welcome(self) -> None:
        if self.preferences.trouble:
            self.output.line(self.preferences.trouble)
        if self.connect():
            name = self.model.name if self.model is not None else "no model"
            kind = "Temporary chat" if self.chat.temporary else "Chat"
            route = route_to(self.client.endpoint)
            where = "on this machine. Nothing you type leaves it."
            if route.kind != "local":
                where = f"which {route.promise}."
            self.output.line(f"{kind} with {name}, {where}")
            self._look_into_history()
        self.output.line("/help lists the commands. Ctrl+C stops an answer. Ctrl+D leaves.")

    def _look_into_history(self) -> None:
        """Offer earlier prompts to the key up, and complete what a program that died has left."""
        if self.store is None or self.store.database.is_locked:
            return
        from .unfinished_answers import complete_unfinished

        try:
            self.reader.remember(reversed(self.store.prompts()))
            complete_unfinished(self)
        except HistoryError as error:
            self.output.error(error.message, error.hint)

    def _take(self, text: str) -> None:
        """Run a command, or send a prompt."""
        if not text:
            return
        if not self.reader.is_person:
            self.output.line(f"{YOU}: {text}")
        slash = parse_slash(text)
        try:
            if slash is not None:
                self._commands.run(*slash)
            else:
                self.send(text)
        except KeyboardInterrupt:
            self.output.line("Stopped.")
            self._interrupt()
        except (ClientError, HistoryError) as error:
            self.output.error(error.message, error.hint)

    # The daemon

    def connect(self) -> bool:
        """Know the models, starting the daemon where it does not run; tells what fails."""
        try:
            models = self.models()
        except ClientError as error:
            self.output.error(error.message, error.hint)
            return False
        self.model = choose_model(models, self.model.name if self.model else self.wanted)
        if self.model is None:
            what = f"There is no model {self.wanted}." if self.wanted else "There is no model yet."
            self.output.error(what, "/model lists what can be downloaded.")
        return self.model is not None

    def models(self) -> list[ModelEntry]:
        """The models there are; raises `ClientError`."""
        request = self.client.request(ModelList, "GET", "/ingle/v1/models")
        try:
            return self.wait(request).models
        except DaemonUnreachable:
            if self._start_daemon is None:
                raise
        self.output.line("Starting the daemon.")
        try:
            self._start_daemon()
        except Exception as error:  # it may be anything that has a sentence for people
            message, hint = str(getattr(error, "message", error)), getattr(error, "hint", None)
            raise DaemonUnreachable(message, hint) from error
        return self.wait(self.client.request(ModelList, "GET", "/ingle/v1/models")).models

    def can_ask(self) -> bool:
        """Whether there is a model that answers, fetched first where that is wanted."""
        if self.model is None and not self.connect():
            return False
        assert self.model is not None
        if not self.model.writes:
            self.output.error(f"{self.model.name} does not chat.", "/model lists others.")
            return False
        return self.model.installed or self._commands.models.offer_pull(self.model)

    # Sending

    def send(
        self, text: str, attachments: tuple[Attachment, ...] = (), *, edits: Message | None = None
    ) -> None:
        """Ask the model, and write its answer; with `edits` in the place of that prompt."""
        if not self.can_ask():
            return
        files = self._commands.files.of(text)
        if files is None:
            return
        attachments = (*attachments, *self.attachments, *files)
        size = len(text) + sum(len(attachment.text) for attachment in attachments)
        if edits is None and not self._commands.context.make_room(size):
            return
        self.attachments = []
        leaf = self.chat.leaf
        parent = edits.parent if edits is not None else leaf.id if leaf is not None else None
        prompt = Message(role="user", content=text, attachments=attachments, parent=parent)
        if not self.chat.messages:
            self.history.add_chat(self.chat)
        self.chat.add(prompt)
        self.history.add_message(self.chat.id, prompt)
        self.answer(prompt)

    def again(self, prompt: Message) -> None:
        """Have a prompt answered once more; its other answers stay as branches."""
        if self.can_ask():
            self.chat.cut_behind(prompt)
            self.answer(prompt)

    def answer(self, prompt: Message) -> None:
        """Have the last prompt of the path answered."""
        request = self._commands.routes.prepare(TurnRequest.of(self.chat, self._model_name))
        turn = self._turn(self._add_answer(prompt.id))
        self._finish(turn, turn.run(request))

    def go_on(self, message: Message) -> None:
        """Have a broken-off answer gone on with, as another branch that begins alike."""
        if not self.can_ask():
            return
        self.chat.cut_behind(message)
        request = TurnRequest.of(self.chat, self._model_name, continues=True)
        request = self._commands.routes.prepare(request)
        turn = self._turn(self._add_answer(message.parent, message.content, message.reasoning))
        self._finish(turn, turn.run(request))

    @property
    def _model_name(self) -> str:
        assert self.model is not None
        return self.model.name

    def _add_answer(self, parent: str | None, content: str = "", reasoning: str = "") -> Message:
        answer = Message(
            role="assistant",
            parent=parent,
            model=self._model_name,
            content=content,
            reasoning=reasoning,
        )
        self.chat.add(answer)
        self.history.add_message(self.chat.id, answer)
        return answer

    def take_up(self, message: Message) -> None:
        """Follow an answer that another program began, and may still write down."""
        assert self.store is not None
        turn = self._turn(message, NullRecorder())
        turn.is_watched = True
        self._finish(turn, self._take_up(turn, self.store))

    @staticmethod
    async def _take_up(turn: Turn, store: HistoryStore) -> None:
        from ..session.answer_takeover import adopt_final_answer, take_over_answer

        if not await take_over_answer(turn, store):
            await adopt_final_answer(turn.message, store)

    def speak(self, message: Message) -> None:
        """Read out a message that was said before."""
        self.output.line(f"{YOU if message.role == 'user' else SPEAKER}: {message.content}")
        for attachment in message.attachments:
            self.output.line(f"Attached: {attachment.name}.")

    def keep_settings(self) -> None:
        """Keep what the chat is held with; its first message brings it along otherwise."""
        if self.chat.messages:
            self.history.set_settings(self.chat.id, self.chat.settings)

    def _turn(self, message: Message, history: ChatRecorder | None = None) -> Turn:
        entry, kept_in = SentenceWriter(message.model, self.output), history or self.history
        turn = Turn(self.client, kept_in, message, entry, lambda: self._tell_progress(turn))
        return turn

    def _finish(self, turn: Turn, task: Coroutine[Any, Any, None]) -> None:
        if self.wait(self._follow(turn, task)):
            self._interrupt()
        if turn.error is not None:
            self.output.error(turn.error.message, turn.error.hint)
            if isinstance(turn.error, DaemonUnreachable) and self.model is not None:
                # The next prompt looks for the daemon again, and for this model there.
                self.wanted, self.model = self.model.name, None
        self.output.bell()
        self._commands.context.tell_fill()

    @staticmethod
    async def _follow(turn: Turn, task: Coroutine[Any, Any, None]) -> bool:
        """Run a turn to its end; whether ctrl+c ended it."""
        try:
            await task
        except asyncio.CancelledError:  # ctrl+c: what is there stays
            me = asyncio.current_task()
            assert me is not None
            me.uncancel()
            turn.stop()
            await turn.cancel()
            return True
        except (OSError, SystemExit):  # nobody reads any more, or a signal ends the program
            turn.stop()
            if not turn.is_watched:
                await turn.cancel()
            raise
        return False

    def _tell_progress(self, turn: Turn) -> None:
        if turn.ending is not None or turn.text:
            return
        if turn.loading is not None and turn.loading < 1:
            self.output.news(f"Model is loading, {number_format.percent(turn.loading)}.")
        elif turn.tokens:
            self.output.news(f"Model is thinking, {number_format.tokens(turn.tokens)} tokens.")
        elif turn.prompt_tokens - turn.cached_tokens > LONG_PROMPT:
            new = number_format.tokens(turn.prompt_tokens - turn.cached_tokens)
            self.output.news(f"Model is reading {new} tokens.")
