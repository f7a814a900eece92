"""`ChatScreen`: the conversation, and what keys and commands do to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import Worker

from ..api import ModelEntry
from ..chat_state import ChatState, key_hints
from ..client import DaemonClient
from ..commands import COMMANDS, find_slash, parse_slash
from ..conversation import Conversation
from ..daemon_link import DaemonLink
from ..errors import ClientError
from ..messages import DaemonConnected, DaemonLost, ModelMoved, PullBroke, PullDone, PullMoved
from ..model_choice import find_model
from ..notices import answer_failed, failure
from ..painter import Painter
from ..transcript.cleaning import clean
from ..transcript.entries import AnswerEntry, PromptEntry
from ..transcript.transcript import Transcript
from ..transcript.warm_up import import_markdown
from ..turn import LOCAL, Turn
from ..widgets.composer import Composer
from ..widgets.prompt_queue import PromptQueue
from ..widgets.pull_bar import PullBar
from ..widgets.status_line import ChatStatus, StatusLine
from ..widgets.title_bar import TitleBar
from ..widgets.welcome import Welcome

QUIT_WINDOW = 2.0
"""Seconds within which a second ctrl+c leaves the chat."""


class ChatScreen(Screen[None]):
    """A chat with a model of the daemon behind `client`.

    `start_daemon` blocks until a daemon runs or raises; it is called in a thread, at the start
    where none answers and later when the user asks for it. `on_live` is called once,
    when the composer can be typed in.
    """

    HORIZONTAL_BREAKPOINTS = [(0, "-thin"), (60, "-wide")]  # noqa: RUF012, as in Textual
    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall"), (28, "-roomy")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(command.key, command.action, command.title, show=False, priority=True)
        for command in COMMANDS
        if command.key is not None and not command.action.startswith("app.")
    ]

    def __init__(
        self,
        client: DaemonClient,
        *,
        model: str | None = None,
        start_daemon: Callable[[], None] | None = None,
        on_live: Callable[[], object] | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._on_live = on_live
        self._link = DaemonLink(client, self.post_message, start_daemon)
        self._state = ChatState(wanted=model)
        self._conversation = Conversation()
        self._turn: Turn | None = None
        self._pull_worker: Worker[None] | None = None
        self._warmed: str | None = None
        self._interrupted_at = 0.0
        self._painter = Painter(self._paint)

    def compose(self) -> ComposeResult:
        yield TitleBar()
        with Container(id="view"):
            yield Transcript(id="transcript")
            yield Welcome()
            yield Static(id="pill", markup=False)
        with Vertical(id="dock"):
            yield PromptQueue()
            yield PullBar()
            yield Composer(id="composer")
        yield StatusLine()

    def on_mount(self) -> None:
        """Be ready to type; everything else comes when it comes."""
        self._transcript.can_focus = False
        self.set_focus(self._composer)
        self._show_state()
        if self._on_live is not None:
            self.call_after_refresh(self._on_live)
        self.run_worker(self._link.run(), group="link", exclusive=True)

    # Parts

    @property
    def chat_app(self) -> App[None]:
        """The app, with its type."""
        return self.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    @property
    def _transcript(self) -> Transcript:
        return self.query_one(Transcript)

    @property
    def _composer(self) -> Composer:
        return self.query_one(Composer)

    @property
    def _queue(self) -> PromptQueue:
        return self.query_one(PromptQueue)

    @property
    def _busy(self) -> bool:
        return self._turn is not None

    # Sending

    @on(Composer.Submitted)
    def submit(self, event: Composer.Submitted) -> None:
        """Run a slash command, send the prompt, or do what an empty enter means now."""
        text = event.text.strip()
        if not text:
            self._empty_enter()
            return
        slash = parse_slash(text)
        if slash is not None:
            self._run_slash(*slash)
            return
        self._composer.remember(event.text)
        self._composer.text = ""
        self._queue.push(text)
        self._send_next()

    def _empty_enter(self) -> None:
        if self._state.trouble is not None:
            self._wake_daemon()
        elif self._state.must_pull:
            self._start_pull()

    def _send_next(self) -> None:
        """Send the first waiting prompt, or bring about what it waits for."""
        self._composer.queue_waiting = len(self._queue) > 0
        if self._busy or not len(self._queue):
            return
        if not self._state.connected:
            self._wake_daemon()
        elif (model := self._state.model) is not None and not model.writes:
            self._refuse(model)
            self._return_queue()
        elif self._state.must_pull:
            self._start_pull()
        elif self._state.can_ask:
            prompt = self._queue.next()
            assert prompt is not None
            self._conversation.add_prompt(prompt)
            self._transcript.add(PromptEntry(prompt))
            self._ask()
        self._composer.queue_waiting = len(self._queue) > 0
        self._show_state()

    def _wake_daemon(self) -> None:
        self._state.trouble = None
        self._link.wake()
        self._show_state()

    def _ask(self) -> None:
        """Have the model answer the conversation."""
        entry = AnswerEntry(self._state.model_name or "model", LOCAL)
        self._transcript.add(entry)
        self._transcript.follow()
        messages = self._conversation.as_request()
        turn = Turn(self._client, messages, self._state.model_name, entry, self._painter.request)
        self._turn = turn
        self.run_worker(self._answer(turn), group="turn")
        self._show_state()

    async def _answer(self, turn: Turn) -> None:
        await turn.run()
        if self._turn is turn:
            self._end_turn(turn)

    def _end_turn(self, turn: Turn) -> None:
        self._turn = None
        self._painter.flush()
        self._transcript.update_entry(turn.entry)
        if turn.text:
            self._conversation.add_answer(turn.text)
        else:
            self._transcript.drop(turn.entry)
        if turn.error is not None:
            self._transcript.add(answer_failed(turn.error))
        if turn.ending in ("stopped", "failed"):
            self._return_queue()
        self._show_state(turn)
        self._send_next()

    def _return_queue(self) -> None:
        """Put waiting prompts back into the composer: nothing is sent after a stop."""
        waiting = self._queue.take_all()
        if waiting:
            draft = [self._composer.text] if self._composer.text else []
            self._composer.replace_text("\n\n".join([*waiting, *draft]))
        self._composer.queue_waiting = False

    @on(Composer.RecallQueued)
    def recall_queued(self) -> None:
        """Give the last waiting prompt back for editing."""
        prompt = self._queue.take_back()
        if prompt is not None:
            self._composer.replace_text(prompt)
        self._composer.queue_waiting = len(self._queue) > 0

    @on(Composer.Changed)
    def warm_up(self) -> None:
        """Have the model loaded while the first words are typed."""
        model = self._state.model
        if model is None or not self._state.can_ask or self._warmed == model.name:
            return
        if not self._composer.text:
            return
        self._warmed = model.name
        self.run_worker(self._link.warm_up(model.name), group="warm")
        self.run_worker(import_markdown, thread=True, group="import")

    # The daemon and its models

    @on(DaemonConnected)
    def connected(self, event: DaemonConnected) -> None:
        """The daemon answers: choose the model to talk to."""
        self._warmed = None
        self._state.connect(event.models)
        if self._state.model is not None and self._state.model.state == "downloading":
            self._start_pull()
        self._send_next()
        self._show_state()

    @on(DaemonLost)
    def lost(self, event: DaemonLost) -> None:
        """The daemon is gone; the chat is not."""
        self._state.lose(event.message, event.hint)
        # A turn that runs tells by itself, when it has given up.
        if self._transcript.entries and not self._busy:
            self._transcript.add(failure(event.message, event.hint, "enter starts it again"))
        self._return_queue()
        self._show_state()

    @on(ModelMoved)
    def model_moved(self, event: ModelMoved) -> None:
        """The model's process changed."""
        state = self._state
        if event.model.name == state.model_name and event.model != state.loaded:
            state.loaded = event.model
            self._show_state()

    def _start_pull(self) -> None:
        name = self._state.model_name
        if name is None:
            return
        self._state.pulling = name
        self._stop_following_pull()
        self._pull_worker = self.run_worker(self._link.follow_pull(name), group="pull")
        self._show_state()

    def _stop_following_pull(self) -> None:
        if self._pull_worker is not None:
            self._pull_worker.cancel()
            self._pull_worker = None

    @on(PullMoved)
    def pull_moved(self, event: PullMoved) -> None:
        """Show how far the download is."""
        if self._state.pulling is not None:
            self.query_one(PullBar).progress = event.progress

    @on(PullDone)
    def pull_done(self, event: PullDone) -> None:
        """The model is here: talk to it."""
        self._end_pull()
        self._state.pulled(event.entry)
        self._send_next()
        self._show_state()

    @on(PullBroke)
    def pull_broke(self, event: PullBroke) -> None:
        """Say what went wrong; enter tries again."""
        self._end_pull()
        self._transcript.add(failure(event.message, event.hint, "enter tries again"))
        self._return_queue()
        self._show_state()

    def _end_pull(self) -> None:
        self._state.pulling = None
        self.query_one(PullBar).progress = None

    # What the screen shows

    def _paint(self) -> None:
        turn = self._turn
        if turn is not None:
            self._transcript.update_entry(turn.entry)
            self._show_status(turn)

    def _show_state(self, turn: Turn | None = None) -> None:
        """Bring everything but the transcript up to date."""
        if not self.is_mounted:
            return
        welcome = self.query_one(Welcome)
        welcome.display = not self._transcript.entries
        welcome.pulling = self._state.pulling is not None
        welcome.model = self._state.model
        welcome.trouble = "\n".join(filter(None, self._state.trouble or ()))
        self.query_one(TitleBar).chat_title = clean(self._conversation.title)
        composer = self._composer
        composer.placeholder = self._state.placeholder
        composer.border_subtitle = key_hints(self._busy, self.size.width)
        self._show_status(turn or self._turn)

    def _show_status(self, turn: Turn | None) -> None:
        line = self.query_one(StatusLine)
        line.status = self._state.status(line.status, turn)

    @on(Transcript.NewLines)
    def new_lines(self, event: Transcript.NewLines) -> None:
        """Say how much came below the view."""
        pill = self.query_one("#pill", Static)
        plural = "" if event.count == 1 else "s"
        pill.update(f"↓ {event.count} new line{plural} · end")
        pill.styles.offset = (self._transcript.margin, 0)
        pill.set_class(event.count > 0, "-shown")

    @on(Composer.FollowRequested)
    def follow_requested(self) -> None:
        """Go to the end."""
        self.action_follow()

    # Commands

    def _run_slash(self, name: str, argument: str) -> None:
        command = find_slash(name)
        if command is None:
            self.notify(
                f"There is no command /{name}. F1 lists them.", severity="warning", markup=False
            )
            return
        self._composer.text = ""
        if command.slash == "model" and argument:
            self._use_model(argument)
        else:
            self.call_later(self.run_action, command.action)

    def action_stop(self) -> None:
        """Stop the answer at once; else stop following a download, which goes on."""
        turn = self._turn
        if turn is not None:
            turn.stop()
            self.run_worker(self._cancel(turn), group="cancel")
            self._end_turn(turn)
        elif self._state.pulling is not None:
            name = self._state.pulling
            self._stop_following_pull()
            self._end_pull()
            self._return_queue()
            self.notify(f"{name} goes on downloading in the daemon.", markup=False)
            self._show_state()

    async def _cancel(self, turn: Turn) -> None:
        error = await turn.cancel()
        if error is not None:
            self.notify(error.message, severity="warning", markup=False)

    def action_interrupt(self) -> None:
        """Copy what is selected, else stop; twice in a row leaves."""
        selected = self.get_selected_text() or self._composer.selected_text
        if selected:
            self._copy(selected)
            self.clear_selection()
            return
        if self._busy:
            self.action_stop()
            return
        now = time.monotonic()
        if now - self._interrupted_at < QUIT_WINDOW:
            self.chat_app.exit()
            return
        self._interrupted_at = now
        self.notify("ctrl+c again leaves the chat.", timeout=QUIT_WINDOW)

    def action_new_chat(self) -> None:
        """Start over; a draft stays."""
        if self._turn is not None:
            self.action_stop()
        self._conversation = Conversation()
        self._transcript.clear()
        self.query_one(StatusLine).status = ChatStatus()
        self._show_state()

    def action_retry(self) -> None:
        """Ask the last prompt again; an answer it had stays to be read."""
        if self._busy:
            self.notify("An answer is still running; esc stops it.", severity="warning")
            return
        if not self._conversation.reopen():
            self.notify("There is no prompt to ask again.", severity="warning")
            return
        for entry in reversed(self._transcript.entries):
            if isinstance(entry, AnswerEntry):
                entry.annotate("asked again below")
                self._transcript.update_entry(entry)
                break
        if self._state.connected:
            self._ask()
            return
        prompt = self._conversation.messages[-1].content
        self._conversation.drop_unanswered()
        self._queue.push(prompt)
        self._send_next()

    def action_copy_answer(self) -> None:
        """Copy the last answer."""
        answer = self._turn.text if self._turn is not None else self._conversation.last_answer
        if answer:
            self._copy(clean(answer))
        else:
            self.notify("There is no answer to copy yet.", severity="warning")

    def _copy(self, text: str) -> None:
        self.chat_app.copy_to_clipboard(text)
        self.notify("Sent to the terminal's clipboard (OSC 52); terminals do not confirm it.")

    async def action_pick_model(self) -> None:
        """Show the models there are now."""
        try:
            self._state.models = await self._link.models()
        except ClientError as error:
            self.notify(error.message, severity="error", markup=False)
            return
        from .model_picker import ModelPicker

        picker = ModelPicker(self._state.models, self._state.model_name)
        self.chat_app.push_screen(picker, self._picked)

    def _picked(self, model: ModelEntry | None) -> None:
        if model is None:
            return
        if not model.writes:
            self._refuse(model)
            return
        self._state.wanted = model.name
        self._state.choose(model)
        if self._state.must_pull:
            self._start_pull()
        self._show_state()

    def _refuse(self, model: ModelEntry) -> None:
        """Say that the model does not chat."""
        purpose = "embeddings" if model.task == "embed" else "ranking"
        self.notify(
            f"{model.name} is there for {purpose} and does not chat; ctrl+o picks another model.",
            severity="warning",
            markup=False,
        )

    def _use_model(self, reference: str) -> None:
        model = find_model(self._state.models, reference)
        if model is None:
            model = ModelEntry(name=reference, installed=False, state="available")
        self._picked(model)

    def action_scroll_page(self, direction: int) -> None:
        """Read a page further up (-1) or down (1)."""
        step = max(1, self._transcript.size.height - 2) * direction
        self._transcript.scroll_relative(y=step, animate=False, immediate=True)

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self._transcript.follow()
