"""`Feature`: one capability of the chat, with the commands it answers and the events it hears."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from ingle.daemon.client.daemon_types import GaugesEvent, PagesEvent
from ingle.daemon.client.model_types import PullProgress

if TYPE_CHECKING:
    from ..chats.message import QueuedPrompt
    from ..chats.turn_request import TurnRequest
    from ..session.turn import Turn
    from ..settings.preferences import Preferences
    from ..transcript.view.transcript import Transcript
    from .chat_host import ChatHost

Handler = Callable[[str], Awaitable[None] | None]
"""Runs a command with its argument, "" where none was given."""


class Feature:
    """Does nothing by itself; a capability overrides what it needs.

    A feature is made before the screen is mounted, and everything slow that it needs is imported
    where it is used: the first key must not wait for it.
    """

    def __init__(self, host: ChatHost) -> None:
        self.host = host

    def handlers(self) -> Mapping[str, Handler]:
        """The commands it answers, by the names in `commands.py`."""
        return {}

    def on_ready(self) -> None:
        """The screen is there, and keys work."""

    def on_chat_opened(self) -> None:
        """Another chat is on the screen, or a new one."""

    def on_path_changed(self) -> None:
        """Another branch, an edit, a compaction or its undoing: what is sent next has changed."""

    def on_connected(self) -> None:
        """The daemon answers, and told its models."""

    def on_escape(self) -> bool:
        """Escape was pressed while no answer runs; True where that meant something here."""
        return False

    def may_send(self, prompt: QueuedPrompt) -> bool:
        """Whether a prompt can go out now; one that holds it calls `send_next` later."""
        return True

    async def prepare_request(self, request: TurnRequest) -> TurnRequest:
        """What is asked in the place of `request`, which is on its way to the daemon."""
        return request

    def on_first_escape(self) -> bool:
        """Escape was pressed; True where it closed something that lies over the chat."""
        return False

    def on_state(self) -> None:
        """Title, status line and hints are brought up to date."""

    def on_block_action(self, event: Transcript.BlockAction) -> None:
        """Something is to be done with a block of the transcript."""

    def on_block_cursor(self, event: Transcript.CursorMoved) -> None:
        """The block cursor is elsewhere."""

    def on_link(self, address: str) -> None:
        """An address in the transcript is to be opened."""

    def on_pull_moved(self, progress: PullProgress) -> None:
        """A download got further, or is over; it may be another client's."""

    def on_turn_started(self, turn: Turn) -> None:
        """A prompt is on its way."""

    def on_turn_ended(self, turn: Turn) -> None:
        """An answer is complete, stopped or failed; it is in the chat already."""

    def on_gauges(self, gauges: GaugesEvent) -> None:
        """The daemon told its figures, a few times a second while something moves."""

    def on_pages(self, pages: PagesEvent) -> None:
        """The daemon told which page of the model's KV cache holds what."""

    def on_draft_changed(self, text: str) -> None:
        """Somebody typed."""

    def on_preferences(self, preferences: Preferences) -> None:
        """The person set something else; what is set at the start is in `host.preferences`."""

    def on_closing(self) -> None:
        """The chat is left; nothing asynchronous will run any more."""
