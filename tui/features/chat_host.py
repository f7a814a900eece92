"""`ChatHost`: what a feature may ask of the chat screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from textual.screen import Screen

from ..commands.chat_session import ChatSession

if TYPE_CHECKING:
    from textual.app import App
    from textual.worker import Worker

    from ingle.daemon.client.model_types import PullProgress

    from ..commands.command_results import Result
    from ..commands.command_runner import Problem
    from ..session.daemon_link import DaemonLink
    from ..session.turn import Turn
    from ..settings.preferences import Preferences
    from ..transcript.view.transcript import Transcript
    from ..widgets.composer.composer import Composer
    from .feature import Feature

F = TypeVar("F", bound="Feature")
R = TypeVar("R")


class ChatHost(ChatSession, Protocol):
    """The chat screen, as its features see it; everything is used on the event loop."""

    @property
    def chat_app(self) -> App[None]: ...

    @property
    def link(self) -> DaemonLink: ...

    @property
    def preferences(self) -> Preferences:
        """What the person set for the chat itself."""
        ...

    def set_preferences(self, preferences: Preferences) -> None:
        """Go on with other preferences, and tell the features."""
        ...

    @property
    def turn(self) -> Turn | None:
        """The answer that is being written, if one is."""
        ...

    @property
    def transcript(self) -> Transcript: ...

    @property
    def composer(self) -> Composer: ...

    def feature(self, kind: type[F]) -> F:
        """The feature of this class."""
        ...

    def tell(
        self, text: str, severity: Literal["information", "warning", "error"] = "information"
    ) -> None:
        """Show a sentence for a moment; it is never read as markup."""
        ...

    def run_task(self, task: Coroutine[Any, Any, None], *, group: str) -> Worker[None]:
        """Run something in the background; it ends with the screen."""
        ...

    def show_screen(
        self, screen: Screen[R], done: Callable[[R | None], None] | None = None
    ) -> None:
        """Put a screen over the chat, and have its result when it is closed."""
        ...

    async def present(self, running: Awaitable[Result]) -> None:
        """Wait for a command, and show what it did or why it was refused."""
        ...

    def refuse(self, problem: Problem) -> None:
        """Show why a command did nothing."""
        ...

    def send_next(self) -> None:
        """Send the first waiting prompt, if it can be sent now."""
        ...

    def return_queue(self) -> None:
        """Put waiting prompts back into the composer."""
        ...

    def add_failure(self, message: str, hint: str | None, keys: str) -> None:
        """Say in the transcript what went wrong, and what to press."""
        ...

    def show_pull(self, progress: PullProgress | None) -> None:
        """Show how far a download is, None where there is none."""
        ...

    def stop(self) -> None:
        """Stop the answer that runs, and keep its part."""
        ...

    def show_path(self, *, at: str | None = None) -> None:
        """Draw the transcript from the chat's path again, and tell the features."""
        ...

    def show_state(self) -> None:
        """Bring title, status line and hints up to date."""
        ...

    def can_run(self, name: str) -> bool:
        """Whether some feature answers this command."""
        ...

    def run_command(self, name: str, argument: str = "") -> None:
        """Run a command of `commands.py`."""
        ...
