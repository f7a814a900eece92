"""`CompareScreen`: two models side by side, which are asked the same."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Static

from ingle.daemon.client.async_client import AsyncDaemonClient

from ..chats.chat import Chat
from ..chats.history_protocol import ChatRecorder
from ..chats.message import Message
from ..chats.turn_request import TurnRequest
from ..terminal.render_throttle import RenderThrottle
from ..transcript.markdown.markdown_preload import import_markdown
from ..widgets.compared_model import ComparedModel
from ..widgets.composer.composer import Composer

SIDE_BY_SIDE = 100
"""Columns from which there is room beside each other."""
KEYS = "enter asks both · alt+1 or alt+2 goes on with one · esc keeps both"
TOGETHER = "They answer at the same time and share the machine."
IN_TURN = "No room for both: they answer in turn, loaded anew."
SHORT_KEYS = "alt+1 alt+2 picks one · esc keeps both"


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

    def __init__(
        self,
        client: AsyncDaemonClient,
        chat: Chat,
        history: ChatRecorder,
        models: tuple[str, str],
        *,
        together: bool,
    ) -> None:
        super().__init__()
        self._chat = chat
        self._history = history
        self._together = together
        self._painter = RenderThrottle(self._paint)
        self._asked = False
        self._sides = [
            ComparedModel(number, model, client, chat, history, self._painter.request)
            for number, model in enumerate(models, 1)
        ]

    def compose(self) -> ComposeResult:
        with Container(id="compared"):
            yield from self._sides
        yield Static(id="compare-note", markup=False)
        yield Composer(id="compare-composer")

    def on_mount(self) -> None:
        """Be ready to type."""
        composer = self.query_one(Composer)
        composer.placeholder = "Ask both"
        composer.focus()
        self.run_worker(import_markdown, thread=True, group="import")

    def on_resize(self, event: events.Resize) -> None:
        """Beside each other where there is room, else one above the other."""
        wide = event.size.width >= SIDE_BY_SIDE
        self.query_one("#compared").set_class(wide, "-beside")
        self._show_note()

    def _show_note(self) -> None:
        note = TOGETHER if self._together else IN_TURN
        room = self.size.width - 4
        keys = KEYS if len(KEYS) <= room else SHORT_KEYS
        between = "  " if len(note) + 2 + len(keys) <= room else "\n"
        self.query_one("#compare-note", Static).update(f"{note}{between}{keys}")

    def _paint(self) -> None:
        for side in self._sides:
            side.paint()

    @property
    def _busy(self) -> bool:
        return any(side.answers for side in self._sides)

    @on(Composer.Submitted)
    def submit(self, event: Composer.Submitted) -> None:
        """Ask both the same."""
        event.stop()
        text = event.text.strip()
        if not text and not event.attachments:
            return
        if self._busy:
            self.notify("They are still answering; esc stops them.", severity="warning")
            return
        self.query_one(Composer).text = ""
        requests = [
            side.ask(prompt) for side, prompt in zip(self._sides, self._prompts(event), strict=True)
        ]
        self._asked = True
        self.run_worker(self._answer(requests), group="compare")

    def _prompts(self, event: Composer.Submitted) -> list[Message]:
        """The prompt in each branch: one message where they have not parted yet."""
        prompts: dict[str | None, Message] = {}
        if not self._chat.messages:
            self._history.add_chat(self._chat)
        for side in self._sides:
            parent = side.leaf.id if side.leaf is not None else None
            if parent not in prompts:
                prompt = Message(
                    role="user",
                    content=event.text.strip(),
                    attachments=event.attachments,
                    parent=parent,
                )
                self._chat.add(prompt)
                self._history.add_message(self._chat.id, prompt)
                prompts[parent] = prompt
        return [prompts[side.leaf.id if side.leaf is not None else None] for side in self._sides]

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
            self.notify("There is no room for both at a time: they answer one after the other.")
        for (side, request), answered in zip(pairs, done, strict=True):
            if not answered:
                await side.run_again(request)

    def action_leave(self) -> None:
        """Close what the composer shows, or stop what runs; else go back, with both in the chat."""
        if self.query_one(Composer).escape(clears=False):
            return
        if self._busy:
            for side in self._sides:
                self.run_worker(side.stop(), group="stop")
        else:
            self.dismiss(self._sides[0].leaf if self._asked else None)

    def action_pick(self, place: int) -> None:
        """Go on with one of them; the other stays as a branch."""
        if self._busy:
            self.notify("They are still answering; esc stops them.", severity="warning")
        else:
            self.dismiss(self._sides[place].leaf if self._asked else None)
