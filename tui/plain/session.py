"""`PlainSession`: one chat as lines, from the first prompt to the end of the input."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from .. import wording
from ..api import ModelEntry, ModelList
from ..chats.chat import Chat
from ..chats.history import History, NoHistory
from ..chats.message import Message
from ..client import DaemonClient
from ..commands import parse_slash
from ..errors import ClientError, DaemonUnreachable
from ..history.errors import HistoryError
from ..model_choice import choose_model
from ..turn import Turn
from ..turn_request import TurnRequest
from .commands import PlainCommands
from .line_reader import LineReader
from .output import PlainOutput
from .spoken_answer import SpokenAnswer

if TYPE_CHECKING:
    from ..history.store import HistoryStore

YOU = "You"
LONG_PROMPT = 2000
"""Tokens to be read that are worth a line."""

R = TypeVar("R")


class PlainSession:
    """Reads prompts and commands, and writes answers; `store` keeps the chats, where there is one.

    Everything is done one after the other: while an answer comes, only ctrl+c is heard.
    """

    def __init__(
        self,
        client: DaemonClient,
        output: PlainOutput,
        reader: LineReader,
        *,
        model: str | None = None,
        temporary: bool = False,
        store: HistoryStore | None = None,
        start_daemon: Callable[[], None] | None = None,
    ) -> None:
        self.client = client
        self.output = output
        self.reader = reader
        self.store = store
        self.chat = Chat(temporary=temporary)
        self.wanted = model
        self.model: ModelEntry | None = None
        self.last_turn: Turn | None = None
        self._start_daemon = start_daemon
        self._commands = PlainCommands(self)
        self._runner = asyncio.Runner()
        self._over = False

    @property
    def history(self) -> History:
        """Where the chat is kept."""
        return NoHistory() if self.chat.temporary or self.store is None else self.store

    def run(self) -> int:
        """Chat until the input ends; 0, or 1 where something failed and nobody sat there."""
        with self._runner:
            if self.reader.is_person:
                self._welcome()
                self._remember_prompts()
            while not self._over:
                try:
                    text = self.reader.prompt(f"{YOU}: ")
                except KeyboardInterrupt:
                    self.output.line()
                    self.output.line("Ctrl+D or /quit leaves.")
                    continue
                if text is None:
                    break
                self._take(text.strip())
        return 1 if self.output.failures and not self.reader.is_person else 0

    def leave(self) -> None:
        """End after this command."""
        self._over = True

    def wait(self, task: Coroutine[Any, Any, R]) -> R:
        """Run something to its end; ctrl+c raises `KeyboardInterrupt`."""
        return self._runner.run(task)

    def _welcome(self) -> None:
        if self.connect():
            name = self.model.name if self.model is not None else "no model"
            kind = "Temporary chat" if self.chat.temporary else "Chat"
            self.output.line(f"{kind} with {name}, on this machine. Nothing you type leaves it.")
        self.output.line("/help lists the commands. Ctrl+C stops an answer. Ctrl+D leaves.")

    def _remember_prompts(self) -> None:
        if self.store is not None:
            try:
                self.reader.remember(reversed(self.store.prompts()))
            except HistoryError as error:
                self.output.error(error.message, error.hint)

    def _take(self, text: str) -> None:
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
        if self.model is None and self.wanted is not None and "/" in self.wanted:
            # A file or a folder, which no list names.
            self.model = ModelEntry(name=self.wanted, installed=True, state="stopped")
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

    # Sending

    def send(self, text: str) -> None:
        """Ask the model, and write its answer."""
        if not self._can_ask():
            return
        leaf = self.chat.leaf
        prompt = Message(role="user", content=text, parent=leaf.id if leaf else None)
        if not self.chat.messages:
            self.history.add_chat(self.chat)
        self.chat.add(prompt)
        self.history.add_message(self.chat.id, prompt)
        self.answer(prompt)

    def again(self, prompt: Message) -> None:
        """Have a prompt answered once more; its other answers stay as branches."""
        if self._can_ask():
            self.chat.cut_behind(prompt)
            self.answer(prompt)

    def _can_ask(self) -> bool:
        if self.model is None and not self.connect():
            return False
        assert self.model is not None
        if not self.model.writes:
            self.output.error(f"{self.model.name} does not chat.", "/model lists others.")
            return False
        return self.model.installed or self._commands.offer_pull(self.model)

    def answer(self, prompt: Message) -> None:
        """Have the last prompt of the path answered."""
        assert self.model is not None
        request = TurnRequest.of(self.chat, self.model.name)
        message = Message(role="assistant", parent=prompt.id, model=self.model.name)
        self.chat.add(message)
        self.history.add_message(self.chat.id, message)
        turn = self._turn(message)
        self._finish(turn, turn.run(request))

    def take_up(self, message: Message) -> None:
        """Follow an answer that was being written when the program ended."""
        turn = self._turn(message)
        self._finish(turn, turn.resume())

    def _turn(self, message: Message) -> Turn:
        entry = SpokenAnswer(message.model, self.output)
        turn = Turn(self.client, self.history, message, entry, lambda: self._tell_progress(turn))
        self.last_turn = turn
        return turn

    def _finish(self, turn: Turn, task: Coroutine[Any, Any, None]) -> None:
        self.wait(self._follow(turn, task))
        if turn.error is not None:
            self.output.error(turn.error.message, turn.error.hint)
            if isinstance(turn.error, DaemonUnreachable):
                self.model = None  # the next prompt looks for the daemon again
        self.output.bell()

    @staticmethod
    async def _follow(turn: Turn, task: Coroutine[Any, Any, None]) -> None:
        try:
            await task
        except asyncio.CancelledError:  # ctrl+c: what is there stays
            me = asyncio.current_task()
            assert me is not None
            me.uncancel()
            turn.stop()
            await turn.cancel()

    def _tell_progress(self, turn: Turn) -> None:
        if turn.ending is not None or turn.text:
            return
        if turn.loading is not None and turn.loading < 1:
            self.output.news(f"Model is loading, {turn.loading * 100:.0f} %.")
        elif turn.tokens:
            self.output.news(f"Model is thinking, {wording.tokens(turn.tokens)} tokens.")
        elif turn.prompt_tokens - turn.cached_tokens > LONG_PROMPT:
            new = wording.tokens(turn.prompt_tokens - turn.cached_tokens)
            self.output.news(f"Model is reading {new} tokens.")
