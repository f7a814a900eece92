"""`ChatHost`: what a feature may ask of the chat screen."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from textual.screen import Screen

if TYPE_CHECKING:
    from textual.app import App
    from textual.worker import Worker

    from ..chats.chat import Chat
    from ..chats.history_protocol import ChatRecorder
    from ..chats.message import Attachment, Message
    from ..client.api_types import PullProgress
    from ..client.daemon_client import AsyncDaemonClient
    from ..history.history_store import HistoryStore
    from ..session.chat_state import ChatState
    from ..session.daemon_link import DaemonLink
    from ..session.turn import Turn
    from ..settings.chat_folders import ChatFolders
    from ..settings.preferences import Preferences
    from ..transcript.view.transcript import Transcript
    from ..widgets.composer.composer import Composer
    from .feature import Feature

F = TypeVar("F", bound="Feature")
R = TypeVar("R")


class ChatHost(Protocol):
    """The chat screen, as its features see it; everything is used on the event loop."""

    @property
    def chat_app(self) -> App[None]: ...

    @property
    def client(self) -> AsyncDaemonClient: ...

    @property
    def link(self) -> DaemonLink: ...

    @property
    def state(self) -> ChatState: ...

    @property
    def folders(self) -> ChatFolders | None:
        """Where history and settings are kept; None keeps nothing."""
        ...

    @property
    def preferences(self) -> Preferences:
        """What the person set for the chat itself."""
        ...

    def set_preferences(self, preferences: Preferences) -> None:
        """Go on with other preferences, and tell the features."""
        ...

    @property
    def chat(self) -> Chat:
        """The chat on the screen."""
        ...

    @property
    def history(self) -> ChatRecorder:
        """Where the chat on the screen is kept; `NullRecorder` for a temporary one."""
        ...

    @property
    def store(self) -> HistoryStore | None:
        """All chats that are kept; None where nothing is."""
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

    def open_chat(self, chat: Chat, *, at: str | None = None) -> None:
        """Show another chat, at the message `at` or at its end; an answer that runs is stopped."""
        ...

    def send(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        """Send a prompt, or queue it while an answer runs."""
        ...

    def ask_again(self, parent: Message) -> None:
        """Have the prompt `parent` answered; what answered it before stays as another branch."""
        ...

    def continue_answer(self, message: Message) -> None:
        """Have a broken-off answer, the last message, gone on with as another branch."""
        ...

    def edit(self, message: Message) -> None:
        """Put a prompt into the composer; sending it makes a new branch."""
        ...

    def send_next(self) -> None:
        """Send the first waiting prompt, if it can be sent now."""
        ...

    def return_queue(self) -> None:
        """Put waiting prompts back into the composer."""
        ...

    def copy(self, text: str) -> None:
        """Copy text, and say how."""
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
