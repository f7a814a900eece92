"""`ComparedModel`: one of two models that answer the same prompts, with its own transcript."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ..chats.message import Message
from ..chats.turn_request import TurnRequest
from ..privacy.chat_route import route_to
from ..session.failure_notices import answer_failed
from ..session.path_entries import entry_of, path_entries
from ..session.turn import Turn
from ..text import number_format
from ..text.terminal_safe_text import clean
from ..transcript.entries.answer_entry import AnswerEntry
from ..transcript.view.transcript import Transcript

if TYPE_CHECKING:
    from ingle.daemon.client.async_client import AsyncDaemonClient

    from ..chats.chat import Chat
    from ..chats.history_protocol import ChatRecorder

NO_ROOM = frozenset({"memory_busy", "insufficient_memory"})
"""What the daemon says of a model that has no room beside those that answer."""


class ComparedModel(Vertical):
    """Writes one branch of the chat; `leaf` is where it ends, `changed` asks for a drawing."""

    def __init__(
        self,
        number: int,
        model: str,
        client: AsyncDaemonClient,
        chat: Chat,
        history: ChatRecorder,
        changed: Callable[[], None],
    ) -> None:
        super().__init__(classes="compared" if number == 1 else "compared -second")
        self.model = model
        self.leaf = chat.leaf
        self.turn: Turn | None = None
        self._number = number
        self._client = client
        self._chat = chat
        self._history = history
        self._changed = changed

    def compose(self) -> ComposeResult:
        yield Static(classes="compared-title")
        yield Transcript()

    def on_mount(self) -> None:
        """Begin with what was said before."""
        transcript = self.transcript
        transcript.can_focus = False
        for entry in path_entries(self._chat):
            transcript.add(entry)
        self.show_facts()

    @property
    def transcript(self) -> Transcript:
        """Its conversation."""
        return self.query_one(Transcript)

    @property
    def answers(self) -> bool:
        """Whether it is answering."""
        return self.turn is not None and self.turn.ending is None

    def ask(self, prompt: Message) -> TurnRequest:
        """Take a prompt that is in the chat; what it returns is to be passed to `run` at once."""
        self._chat.end_path_at(prompt)
        request = TurnRequest.of(self._chat, self.model)
        self.transcript.add(entry_of(self._chat, prompt))
        self._begin(prompt)
        return request

    def _begin(self, prompt: Message) -> None:
        answer = Message(role="assistant", parent=prompt.id, model=self.model)
        self._chat.add(answer)
        self._history.add_message(self._chat.id, answer)
        self.leaf = answer
        route = route_to(self._client.endpoint)
        words = f"{route.mark} {route.word.lower()}"
        entry = AnswerEntry(answer.model, words, id=answer.id, created=answer.created)
        self.transcript.add(entry)
        self.transcript.follow()
        self.turn = Turn(self._client, self._history, answer, entry, self._changed)

    async def run(self, request: TurnRequest) -> bool:
        """Answer; False where there is no room for this model beside the other one."""
        turn = self.turn
        assert turn is not None
        await turn.run(request)
        self.paint()
        if turn.error is not None and turn.error.code in NO_ROOM and not turn.text:
            return False
        self._settle(turn)
        return True

    async def run_again(self, request: TurnRequest) -> None:
        """Answer, now that there is room."""
        turn = self.turn
        assert turn is not None
        assert turn.message.parent is not None
        prompt = self._chat.messages[turn.message.parent]
        self.transcript.drop(turn.entry)
        self._chat.remove(turn.message)
        self._history.remove_message(self._chat.id, turn.message.id)
        self._begin(prompt)
        if not await self.run(request) and self.turn is not None:
            self._settle(self.turn)

    def _settle(self, turn: Turn) -> None:
        if turn.error is not None:
            self.transcript.add(answer_failed(turn.error))
        self.show_facts()

    async def stop(self) -> None:
        """Stop its answer, and keep the part."""
        turn = self.turn
        if turn is not None and turn.ending is None:
            turn.stop()
            self.paint()
            await turn.cancel()

    def paint(self) -> None:
        """Draw the growing answer."""
        if self.turn is not None and self.is_mounted:
            self.transcript.update_entry(self.turn.entry)
            self.show_facts()

    def show_facts(self) -> None:
        """Name the model and its figures."""
        title = Content.assemble(
            (f" {self._number} ", "bold $primary"), (clean(self.model), "bold"), "  "
        )
        facts = Content(self._facts()).stylize("$muted")
        line = Content.assemble(title, facts)
        self.query_one(".compared-title", Static).update(line)

    def _facts(self) -> str:
        turn = self.turn
        if turn is None:
            return ""
        if turn.ending is None and turn.first_token_seconds is None:
            if turn.loading is not None and turn.loading < 1:
                return f"starting {number_format.percent(turn.loading)}"
            return "reading" if turn.prompt_tokens else "waiting"
        parts = [
            number_format.speed(turn.speed) if turn.speed else "",
            f"first {number_format.duration(turn.first_token_seconds)}"
            if turn.first_token_seconds is not None
            else "",
            f"{number_format.tokens(turn.tokens)} token{'' if turn.tokens == 1 else 's'}",
            turn.ending if turn.ending in ("stopped", "failed") else "",
        ]
        return " · ".join(part for part in parts if part)
