"""The widgets of the chat screen, and what they show of chat, model and daemon."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events, getters, on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.widgets import Static

from ingle.daemon.client.model_types import PullProgress

from ..chats.chat import Chat
from ..features.feature import Handler
from ..session.chat_state import ChatState, key_hints
from ..session.turn import Turn
from ..settings.preferences import Preferences
from ..text.terminal_safe_text import clean
from ..transcript.view.transcript import Transcript
from ..widgets.composer.composer import Composer
from ..widgets.prompt_queue import PromptQueue
from ..widgets.pull_bar import PullBar
from ..widgets.route_line import RouteLine
from ..widgets.status_line import StatusLine
from ..widgets.title_bar import TitleBar
from ..widgets.welcome import Welcome
from .feature_screen import FeatureScreen


class ChatLayout(FeatureScreen):
    """Lays the widgets out; `show_state` brings them up to date."""

    HORIZONTAL_BREAKPOINTS = [(0, "-thin"), (60, "-wide"), (120, "-broad")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall"), (28, "-roomy")]  # noqa: RUF012

    queue = getters.query_one(PromptQueue)
    title_bar = getters.query_one(TitleBar)
    welcome = getters.query_one(Welcome)
    pull_bar = getters.query_one(PullBar)
    status_line = getters.query_one(StatusLine)
    pill = getters.query_one("#pill", Static)

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        preferences: Preferences,
        state: ChatState,
        chat: Chat,
    ) -> None:
        super().__init__(handlers, preferences)
        self.state = state
        self.chat = chat

    @property
    def turn(self) -> Turn | None:
        """The answer that is generated."""
        raise NotImplementedError

    @property
    def is_editing(self) -> bool:
        """Whether the draft will replace a prompt."""
        raise NotImplementedError

    # Properties rather than `getters`: a protocol with these attributes does not match a getter.

    @property
    def transcript(self) -> Transcript:
        """The conversation on the screen."""
        return self.query_one(Transcript)

    @property
    def composer(self) -> Composer:
        """Where prompts are written."""
        return self.query_one(Composer)

    @property
    def typed_in(self) -> Composer:
        """Its letters are painted at once."""
        return self.composer

    def compose(self) -> ComposeResult:
        yield TitleBar()
        with Horizontal(id="main"), Container(id="view"):
            yield Transcript(id="transcript")
            yield Welcome()
            yield Static(id="pill", markup=False)
        with Vertical(id="dock"):
            yield PromptQueue()
            yield PullBar()
            yield RouteLine()
            yield Composer(id="composer")
        yield StatusLine()

    def show_pull(self, progress: PullProgress | None) -> None:
        """Show how far a download is."""
        self.pull_bar.progress = progress

    def show_state(self, turn: Turn | None = None) -> None:
        """Bring everything but the transcript up to date."""
        if not self.is_mounted:
            return
        welcome = self.welcome
        welcome.display = not self.transcript.entries
        welcome.pulling = self.state.pulling is not None
        welcome.models = tuple(self.state.models)
        welcome.model = self.state.model
        welcome.temporary = self.chat.temporary
        welcome.trouble = "\n".join(filter(None, self.state.trouble or ()))
        self.title_bar.chat_title = clean(self.chat.title)
        for feature in self.features:
            feature.on_state()
        self.composer.placeholder = self.state.placeholder
        self._show_hints(self.size.width)
        self._show_status(turn or self.turn)

    def on_resize(self, event: events.Resize) -> None:
        """Tell as many keys as there is room for now."""
        if self.is_mounted:
            self._show_hints(event.size.width)

    def _show_hints(self, width: int) -> None:
        hints = key_hints(self.turn is not None, width, self.preferences.enter_sends)
        self.composer.hints = "editing · esc leaves it as it was" if self.is_editing else hints

    def _show_status(self, turn: Turn | None) -> None:
        line = self.status_line
        line.status = self.state.status(line.status, turn)

    @on(Transcript.NewLines)
    def new_lines(self, event: Transcript.NewLines) -> None:
        """Say how much came below the view."""
        pill = self.pill
        plural = "" if event.count == 1 else "s"
        pill.update(f"↓ {event.count} new line{plural} · end")
        pill.styles.offset = (self.transcript.margin, 0)
        pill.set_class(event.count > 0, "-shown")

    @on(Composer.FollowRequested)
    def follow_requested(self) -> None:
        """Go to the end."""
        self.transcript.follow()

    @on(Welcome.Left)
    def back_to_draft(self) -> None:
        """Let keys go to the draft again."""
        self.composer.focus()
