"""`Feature`: one capability of the chat, with the commands and events it handles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from ..session.chat_events import Report
from ..transcript.view.transcript import Transcript

if TYPE_CHECKING:
    from ..chats.message import QueuedPrompt
    from ..chats.turn_request import TurnRequest
    from ..session.turn import Turn
    from ..settings.preferences import Preferences
    from .chat_host import ChatHost

TranscriptEvent = Transcript.BlockAction | Transcript.CursorMoved | Transcript.LinkClicked
Handler = Callable[[str], Awaitable[None] | None]
"""Runs a command with its argument, "" without one."""


class Feature:
    """Base of all capabilities; its hooks do nothing.

    Slow modules are imported on first use, so that no key waits for them.
    """

    def __init__(self, host: ChatHost) -> None:
        self.host = host

    def handlers(self) -> Mapping[str, Handler]:
        """The handlers of its commands, by name."""
        return {}

    def on_ready(self) -> None:
        """The screen is mounted, and keys are handled."""

    def on_chat_opened(self) -> None:
        """Another chat was opened."""

    def on_path_changed(self) -> None:
        """The next messages to send have changed: by a branch, an edit or a compaction."""

    def on_connected(self) -> None:
        """The daemon answers, and its models are known."""

    def on_escape(self) -> bool:
        """Escape was pressed while no answer runs; True if it was handled."""
        return False

    def may_send(self, prompt: QueuedPrompt) -> bool:
        """Whether a prompt can be sent now; a feature that holds it calls `send_next` later."""
        return True

    async def prepare_request(self, request: TurnRequest) -> TurnRequest:
        """The request to send in place of `request`."""
        return request

    def on_first_escape(self) -> bool:
        """Escape was pressed; True if it closed something that lies over the chat."""
        return False

    def on_state(self) -> None:
        """Title, status line and hints are drawn again."""

    def on_transcript(self, event: TranscriptEvent) -> None:
        """The user chose an action on a block, moved the block cursor, or clicked an address."""

    def on_report(self, report: Report) -> None:
        """The daemon reported something; its figures a few times a second while they change."""

    def on_stop(self) -> None:
        """Whatever runs for the chat is to be stopped: by escape, or because another is opened."""

    def on_turn_started(self, turn: Turn) -> None:
        """A prompt is being sent."""

    def on_turn_ended(self, turn: Turn) -> None:
        """An answer is complete, stopped or failed; it is in the chat already."""

    def on_draft_changed(self, text: str) -> None:
        """The draft changed."""

    def on_preferences(self, preferences: Preferences) -> None:
        """A preference changed; those of the start are in `host.preferences`."""

    def on_closing(self) -> None:
        """The chat is closing; nothing asynchronous runs any more."""
