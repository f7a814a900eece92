"""`CompareScreen`: two models side by side, which are asked the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual import events, getters
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from ..chats.message import Message
from ..chats.turn_request import TurnRequest
from ..commands.chat_session import ChatSession
from ..session.chat_entries import answer_failed, entry_of, path_entries
from ..session.turn import Turn, add_answer, add_prompt
from ..terminal.render_throttle import RenderThrottle, driver_of
from ..text import number_format
from ..text.terminal_safe_text import clean
from ..transcript.entries.answer_entry import AnswerEntry
from ..transcript.markdown.markdown_preload import import_markdown
from ..transcript.view.transcript import Transcript
from ..widgets.composer.composer import Composer

SIDE_BY_SIDE = 100
"""Columns from which both models are shown side by side."""
KEYS = "alt+1 or alt+2 continues with one · esc keeps both"
TOGETHER = "They answer at the same time and share the machine."
IN_TURN = "There is memory for one of them at a time: they answer in turn."
SHORT_KEYS = "alt+1 alt+2 continues with one · esc keeps both"

NO_ROOM = frozenset({"memory_busy", "insufficient_memory"})
"""Error codes of the daemon if a model does not fit into memory beside those that answer."""


class ComparedModel(Vertical):
    """One of the models: writes one branch of the chat, which ends at `leaf`.

    `changed` requests a drawing.
    """

    transcript = getters.query_one(Transcript)

    def __init__(
        self,
        number: int,
        model: str,
        session: ChatSession,
        changed: Callable[[], None],
    ) -> None:
        super().__init__(classes="compared" if number == 1 else "compared -second")
        self.model = model
        self.leaf = session.chat.leaf
        self.turn: Turn | None = None
        self._entry = AnswerEntry(model)
        self._number = number
        self._client = session.client
        self._chat = session.chat
        self._history = session.history
        self._changed = changed

    def compose(self) -> ComposeResult:
        yield Static(classes="compared-title")
        yield Transcript()

    def on_mount(self) -> None:
        """Show the chat so far."""
        transcript = self.transcript
        transcript.can_focus = False
        for entry in path_entries(self._chat):
            transcript.add(entry)
        self.show_facts()

    @property
    def answers(self) -> bool:
        """Whether it is answering."""
        return self.turn is not None and self.turn.ending is None

    def ask(self, prompt: Message) -> TurnRequest:
        """Add a prompt of the chat; return the request, which must be passed to `run` at once."""
        self._chat.end_path_at(prompt)
        request = TurnRequest.of(self._chat, self.model)
        self.transcript.add(entry_of(self._chat, prompt))
        self._begin(prompt)
        return request

    def _begin(self, prompt: Message) -> None:
        answer = self.leaf = add_answer(self._chat, self._history, self.model, prompt.id)
        self._entry = AnswerEntry(answer.model, id=answer.id, created=answer.created)
        self.transcript.add(self._entry)
        self.transcript.follow()
        self.turn = Turn(self._client, self._history, answer, self._entry, self._changed)

    async def run(self, request: TurnRequest) -> bool:
        """Generate the answer; False if the model does not fit into memory beside the other one."""
        turn = self.turn
        assert turn is not None
        await turn.run(request)
        self.paint()
        if turn.error is not None and turn.error.code in NO_ROOM and not turn.text:
            return False
        self._settle(turn)
        return True

    async def run_again(self, request: TurnRequest) -> None:
        """Generate the answer again, now that there is room."""
        turn = self.turn
        assert turn is not None
        assert turn.message.parent is not None
        prompt = self._chat.messages[turn.message.parent]
        self.transcript.drop(self._entry)
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
        """Stop the answer, and keep the generated text."""
        turn = self.turn
        if turn is not None and turn.ending is None:
            turn.stop()
            self.paint()
            await turn.cancel()

    def paint(self) -> None:
        """Draw the growing answer."""
        if self.turn is not None and self.is_mounted:
            self.transcript.update_entry(self._entry)
            self.show_facts()

    def show_facts(self) -> None:
        """Draw the model's name and figures."""
        line = Content.assemble(
            (f" {self._number} ", "bold $primary"),
            (clean(self.model), "bold"),
            "  ",
            (self._facts(), "$muted"),
        )
        self.query_one(".compared-title", Static).update(line)

    def _facts(self) -> str:
        turn = self.turn
        if turn is None:
            return ""
        if turn.ending is None and turn.first_token_seconds is None:
            if turn.loading is not None and turn.loading < 1:
                return f"starting {number_format.percent(turn.loading)}"
            return "prefill" if turn.prompt_tokens else "waiting"
        parts = [
            number_format.speed(turn.speed) if turn.speed else "",
            f"first {number_format.duration(turn.first_token_seconds)}"
            if turn.first_token_seconds is not None
            else "",
            number_format.counted(turn.tokens, "token"),
            turn.ending if turn.ending in ("stopped", "failed") else "",
        ]
        return " · ".join(part for part in parts if part)


class CompareScreen(Screen[Message | None]):
    """Ends with the last message of the branch to go on with; None leaves the chat as it was.

    Both models' answers are in the chat as branches from the moment they begin. `together` is
    whether both have room at a time; else they answer in turn.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Stop, or back", show=False, priority=True),
        Binding("alt+1", "pick(0)", "Go on with the first", show=False, priority=True),
        Binding("alt+2", "pick(1)", "Go on with the second", show=False, priority=True),
        Binding("ctrl+q", "app.quit", "Leave", show=False, priority=True),
    ]

    def __init__(self, session: ChatSession, models: tuple[str, str], *, together: bool) -> None:
        super().__init__()
        self._chat = session.chat
        self._history = session.history
        self._preferences = session.preferences
        self._together = together
        self._painter = RenderThrottle(self._paint, lambda: driver_of(self.app))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        self._asked = False
        self._sides = [
            ComparedModel(number, model, session, self._painter.request)
            for number, model in enumerate(models, 1)
        ]

    def compose(self) -> ComposeResult:
        with Container(id="compared"):
            yield from self._sides
        yield Static(id="compare-note", markup=False)
        yield Composer(id="compare-composer")

    def on_mount(self) -> None:
        """Focus the composer, with the keys of the settings."""
        composer = self.query_one(Composer)
        composer.enter_sends = self._preferences.enter_sends
        composer.set_vim(self._preferences.vim_keys)
        composer.placeholder = "Ask both"
        composer.take_draft = self.submit
        composer.focus()
        self.run_worker(import_markdown, thread=True, group="import")

    def on_resize(self, event: events.Resize) -> None:
        """Put the models side by side where there is room, else one above the other."""
        wide = event.size.width >= SIDE_BY_SIDE
        self.query_one("#compared").set_class(wide, "-beside")
        self._show_note()

    def _show_note(self) -> None:
        note = TOGETHER if self._together else IN_TURN
        room = self.size.width - 4
        keys = f"{'enter' if self._preferences.enter_sends else 'ctrl+j'} asks both · {KEYS}"
        keys = keys if len(keys) <= room else SHORT_KEYS
        between = "  " if len(note) + 2 + len(keys) <= room else "\n"
        self.query_one("#compare-note", Static).update(f"{note}{between}{keys}")

    def _paint(self) -> None:
        for side in self._sides:
            side.paint()

    @property
    def _busy(self) -> bool:
        return any(side.answers for side in self._sides)

    def submit(self, draft: Composer.Submitted) -> None:
        """Ask both the same."""
        if not draft.text.strip() and not draft.attachments:
            return
        if self._busy:
            self.notify("They are still answering; esc stops them.", severity="warning")
            return
        self.query_one(Composer).clear_sent()
        requests = [
            side.ask(prompt) for side, prompt in zip(self._sides, self._prompts(draft), strict=True)
        ]
        self._asked = True
        self.run_worker(self._answer(requests), group="compare")

    def _prompts(self, draft: Composer.Submitted) -> list[Message]:
        """The prompt of each branch; a single message while the branches are the same."""
        prompts: dict[str, Message] = {}
        for side in self._sides:
            leaf = "" if side.leaf is None else side.leaf.id
            if leaf not in prompts:
                if side.leaf is not None:
                    self._chat.end_path_at(side.leaf)
                prompts[leaf] = add_prompt(
                    self._chat, self._history, draft.text.strip(), draft.attachments
                )
        return [prompts["" if side.leaf is None else side.leaf.id] for side in self._sides]

    async def _answer(self, requests: list[TurnRequest]) -> None:
        pairs = list(zip(self._sides, requests, strict=True))
        if not self._together:
            for side, request in pairs:
                if side.answers and not await side.run(request):
                    await side.run_again(request)
            return
        done = await asyncio.gather(*(side.run(request) for side, request in pairs))
        if not all(done):
            self._together = False
            self._show_note()
            self.notify("There is memory for one of them at a time: they answer in turn.")
        for (side, request), answered in zip(pairs, done, strict=True):
            if not answered:
                await side.run_again(request)

    def action_leave(self) -> None:
        """Close the completions, or stop the answers; else go back, with both in the chat."""
        if self.query_one(Composer).escape(clears=False):
            return
        if self._busy:
            for side in self._sides:
                self.run_worker(side.stop(), group="stop")
        else:
            self.dismiss(self._sides[0].leaf if self._asked else None)

    def action_pick(self, place: int) -> None:
        """Continue with one of them; the other stays as a branch."""
        if self._busy:
            self.notify("They are still answering; esc stops them.", severity="warning")
        else:
            self.dismiss(self._sides[place].leaf if self._asked else None)
