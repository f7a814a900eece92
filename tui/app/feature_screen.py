"""A screen with features: runs their commands, and passes events of daemon and transcript on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Literal, TypeVar

from textual import on
from textual.app import App
from textual.screen import Screen
from textual.worker import Worker

from ingle.daemon.client.daemon_types import GaugesEvent

from ..commands.chat_session import FrontEnd
from ..commands.command_results import CommandRefused, Result
from ..commands.command_runner import PROBLEMS, Problem
from ..features.feature import Feature, Handler
from ..session.chat_events import GaugesMoved, PagesMoved, PullMoved
from ..settings.preferences import Preferences
from ..text.terminal_safe_text import clean
from ..transcript.view.transcript import Transcript
from .feature_set import FeatureSet
from .prompt_screen import PromptScreen

F = TypeVar("F", bound=Feature)
R = TypeVar("R")


class FeatureScreen(PromptScreen[None]):
    """The part of `ChatHost` that does not depend on a chat; `handlers` are the screen's own."""

    front: FrontEnd

    def __init__(self, handlers: Mapping[str, Handler], preferences: Preferences) -> None:
        super().__init__()
        self.features = FeatureSet(handlers)
        self.preferences = preferences
        self.last_gauges: GaugesEvent | None = None

    @property
    def chat_app(self) -> App[None]:
        """The app, with its type."""
        return self.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def feature(self, kind: type[F]) -> F:
        """The feature of this class."""
        return self.features.find(kind)

    def tell(
        self, text: str, severity: Literal["information", "warning", "error"] = "information"
    ) -> None:
        """Show a sentence for a moment."""
        self.notify(clean(text), severity=severity, markup=False)

    async def present(self, running: Awaitable[Result]) -> None:
        """Wait for a command, and show what it did or why it was refused."""
        try:
            result = await running
        except PROBLEMS as problem:
            self.refuse(problem)
        else:
            self.front.present(result)

    def refuse(self, problem: Problem) -> None:
        """Show why a command did nothing."""
        severity = "warning" if isinstance(problem, CommandRefused) else "error"
        self.tell(f"{problem.message} {problem.hint or ''}".strip(), severity)

    def run_task(self, task: Coroutine[Any, Any, None], *, group: str) -> Worker[None]:
        """Run something in the background."""
        return self.run_worker(task, group=group)

    def show_screen(
        self, screen: Screen[R], done: Callable[[R | None], None] | None = None
    ) -> None:
        """Put a screen over the chat."""
        self.chat_app.push_screen(screen, done)

    def action_command(self, name: str) -> None:
        """Run the command a key is bound to."""
        self.run_command(name)

    def run_command(self, name: str, argument: str = "") -> None:
        """Run a command; one that waits goes on in the background."""
        result = self.features.run(name, argument)
        if result is not None:
            self.run_worker(_awaited(result), group=f"command-{name}")

    def set_preferences(self, preferences: Preferences) -> None:
        """Go on with other preferences."""
        self.preferences = preferences
        for feature in self.features:
            feature.on_preferences(preferences)

    def can_run(self, name: str) -> bool:
        """Whether some feature answers this command."""
        return self.features.can_run(name)

    # Events

    @on(PullMoved)
    def pull_moved(self, event: PullMoved) -> None:
        """A download got further."""
        for feature in self.features:
            feature.on_pull_moved(event.progress)

    @on(GaugesMoved)
    def gauges_moved(self, event: GaugesMoved) -> None:
        """The daemon told its figures."""
        self.last_gauges = event.gauges
        for feature in self.features:
            feature.on_gauges(event.gauges)

    @on(PagesMoved)
    def pages_moved(self, event: PagesMoved) -> None:
        """The daemon told what is in the KV cache."""
        for feature in self.features:
            feature.on_pages(event.pages)

    @on(Transcript.BlockAction)
    def block_action(self, event: Transcript.BlockAction) -> None:
        """Something is to be done with a block."""
        for feature in self.features:
            feature.on_block_action(event)

    @on(Transcript.CursorMoved)
    def cursor_moved(self, event: Transcript.CursorMoved) -> None:
        """The block cursor is elsewhere."""
        for feature in self.features:
            feature.on_block_cursor(event)

    @on(Transcript.LinkClicked)
    def link_clicked(self, event: Transcript.LinkClicked) -> None:
        """An address is to be opened."""
        for feature in self.features:
            feature.on_link(event.address)


async def _awaited(result: Any) -> None:
    await result
