"""`ChatLayout`: the widgets of the chat screen, and the commands and events of its features."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

from textual import events, getters, on
from textual.app import App, ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.reactive import var
from textual.widgets import Static

from ..chats.chat import Chat
from ..chats.message import Message
from ..commands.command_results import CommandRefused, Result
from ..commands.command_runner import PROBLEMS, Problem
from ..history.history_store import HistoryStore
from ..screens.prompt_screen import PromptScreen
from ..session.chat_state import ChatState, ChatView, key_hints
from ..session.turn import Turn
from ..settings.preferences import Preferences
from ..text import number_format
from ..text.terminal_safe_text import clean
from ..transcript.view.transcript import Transcript
from ..widgets.compaction_bar import CompactionBar
from ..widgets.composer.composer import Composer
from ..widgets.prompt_queue import PromptQueue
from ..widgets.pull_bar import PullBar
from ..widgets.route_line import RouteLine
from ..widgets.status_line import StatusLine
from ..widgets.title_bar import TitleBar
from ..widgets.welcome import Welcome
from .feature import Feature, Handler

if TYPE_CHECKING:
    from ..commands.chat_session import FrontEnd

F = TypeVar("F", bound=Feature)
LASTING = 900.0
"""Seconds that a sentence is shown while what it says is going on."""
SHORTEST = 5.0
"""Seconds that a sentence is shown at least."""
READ_SPEED = 12.0
"""Characters that are read in a second."""


class ChatLayout(PromptScreen[None]):
    """Composes the widgets, draws the state, and runs commands."""

    HORIZONTAL_BREAKPOINTS = [(0, "-thin"), (60, "-wide"), (120, "-broad")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall"), (28, "-roomy")]  # noqa: RUF012

    view: var[ChatView] = var(lambda: ChatView(ChatState(), Chat()), always_update=True)
    preferences: var[Preferences] = var(Preferences(), init=False)
    turn: var[Turn | None] = var[Turn | None](None, init=False)
    """The answer that is generated."""
    runs_tools: var[bool] = var(False, init=False)
    """Whether tool calls of the last answer run."""
    edits: var[Message | None] = var[Message | None](None, init=False)
    """The prompt that the draft will replace."""
    front: FrontEnd

    transcript = getters.query_one(Transcript)
    composer = getters.query_one(Composer)
    queue = getters.query_one(PromptQueue)
    title_bar = getters.query_one(TitleBar)
    welcome = getters.query_one(Welcome)
    pull_bar = getters.query_one(PullBar)
    status_line = getters.query_one(StatusLine)
    pill = getters.query_one("#pill", Static)

    def __init__(self, state: ChatState) -> None:
        super().__init__()
        self.features: list[Feature] = []
        self.is_complete = False
        """Whether the features are loaded; until then prompts and their commands wait."""
        self._handlers = dict(self.handlers())
        self._early: list[tuple[str, str]] = []
        self._is_drawing = False
        self._told: str = ""
        self._told_lasts = False
        self.state = state
        self.state.changed = self.state_changed
        self.chat = Chat()
        self.store: HistoryStore | None = None

    def handlers(self) -> Mapping[str, Handler]:
        """The commands that work before the features are loaded."""
        return {}

    @property
    def typed_in(self) -> Composer:
        """The widget that is painted at once after a key."""
        return self.composer

    @property
    def chat_app(self) -> App[None]:
        """The app, with its type."""
        return self.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def compose(self) -> ComposeResult:
        yield TitleBar().data_bind(ChatLayout.view)
        with Horizontal(id="main"), Vertical(id="column"):
            with Container(id="view"):
                yield Transcript(id="transcript")
                yield Welcome().data_bind(ChatLayout.view)
                yield Static(id="pill", markup=False)
            with Vertical(id="dock"):
                yield PromptQueue()
                yield PullBar()
                yield CompactionBar()
                with Container(id="entry"):
                    yield Composer(id="composer")
                    yield RouteLine()
        yield StatusLine(classes="" if self.preferences.gauges else "-off")

    # Drawing

    def state_changed(self) -> None:
        """Call `show_state` once the current event has been handled."""
        if not self._is_drawing:
            self._is_drawing = True
            self.call_next(self.show_state)

    watch_turn = watch_runs_tools = watch_edits = state_changed

    def show_state(self) -> None:
        """Draw `state`, `chat` and the preferences; the transcript draws itself."""
        self._is_drawing = False
        if not (self.is_mounted and self.is_attached):  # too early, or the chat is being left
            return
        self.welcome.display = not self.transcript.entries
        self.view = ChatView(self.state, self.chat, self.store)
        for feature in self.features:
            feature.on_state()
        self.composer.placeholder = self.state.placeholder
        self._show_hints(self.size.width)
        self.show_status(self.turn)

    def show_status(self, turn: Turn | None) -> None:
        """Draw the status line."""
        line = self.status_line
        line.status = self.state.status(line.status, turn)

    def on_resize(self, event: events.Resize) -> None:
        """Update the key hints for the new width."""
        if self.is_mounted:
            self._show_hints(event.size.width)

    def _show_hints(self, width: int) -> None:
        busy = self.turn is not None or self.runs_tools
        hints = key_hints(busy, width, self.preferences.enter_sends)
        editing = "editing · esc cancels"
        self.composer.hints = hints if self.edits is None else editing

    @on(Transcript.NewLines)
    def new_lines(self, event: Transcript.NewLines) -> None:
        """Show how many lines were added below the view."""
        pill = self.pill
        pill.update(f"↓ {number_format.counted(event.count, 'new line')} · end")
        pill.styles.offset = (self.transcript.margin, 0)
        pill.set_class(event.count > 0, "-shown")

    def tell(
        self,
        text: str,
        severity: Literal["information", "warning", "error"] = "information",
        *,
        lasts: bool = False,
    ) -> None:
        """Show a sentence while it is read, or until the next one; it is never read as markup."""
        if self._told_lasts or text == self._told:
            self._untell()
        self._told, self._told_lasts = text, lasts
        seconds = LASTING if lasts else max(SHORTEST, len(text) / READ_SPEED)
        self.notify(clean(text), severity=severity, timeout=seconds, markup=False)

    def _untell(self) -> None:
        self.chat_app.clear_notifications()
        self.query("ToastHolder").remove()  # Textual leaves them, empty
        self._told_lasts = False

    # Commands and features

    def add_feature(self, feature: Feature) -> None:
        """Add a feature; its commands replace those of earlier features."""
        self.features.append(feature)
        self._handlers.update(feature.handlers())

    def complete(self) -> None:
        """Run the commands that were issued before all features were added."""
        self.is_complete = True
        for name, argument in self._early:
            self.run_command(name, argument)

    def feature(self, kind: type[F]) -> F:
        """The feature of this class."""
        return next(feature for feature in self.features if isinstance(feature, kind))

    def can_run(self, name: str) -> bool:
        """Whether the command of this name works here."""
        return name in self._handlers

    def action_command(self, name: str) -> None:
        """Run the command a key is bound to."""
        self.run_command(name)

    def run_command(self, name: str, argument: str = "") -> None:
        """Run a command; an asynchronous one runs in the background."""
        handler = self._handlers.get(name)
        if handler is None:
            if not self.is_complete:
                self._early.append((name, argument))
            return
        result = handler(argument)
        if result is not None:
            self.run_worker(result, group=f"command-{name}")

    async def present(self, running: Awaitable[Result]) -> None:
        """Await a command, and show its result or why it was refused."""
        try:
            result = await running
        except PROBLEMS as problem:
            self.refuse(problem)
        else:
            self.front.present(result)
        finally:
            if self._told_lasts and self.is_attached:
                self._untell()

    def refuse(self, problem: Problem) -> None:
        """Show why a command was refused."""
        severity = "warning" if isinstance(problem, CommandRefused) else "error"
        self.tell(f"{problem.message} {problem.hint or ''}".strip(), severity)

    def watch_preferences(self, preferences: Preferences) -> None:
        """Pass changed preferences to the features."""
        self.state_changed()
        for feature in self.features:
            feature.on_preferences(preferences)
