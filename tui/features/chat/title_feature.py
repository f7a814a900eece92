"""`TitleFeature`: what the line at the top says of the chat and its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...session.path_entries import place_of
from ...text.terminal_safe_text import clean
from ...widgets.title_bar import TitleBar
from ..feature import Feature

if TYPE_CHECKING:
    from ingle.daemon.client.daemon_types import GaugesEvent

    from ...chats.chat import Chat
    from ...session.turn import Turn


class TitleFeature(Feature):
    """Keeps the title bar up to date."""

    def on_ready(self) -> None:
        """See `Feature`."""
        self._show_chat()

    def on_chat_opened(self) -> None:
        """See `Feature`."""
        self._show_chat()

    def on_path_changed(self) -> None:
        """See `Feature`."""
        self._show_chat()

    def on_turn_started(self, turn: Turn) -> None:
        """See `Feature`."""
        self._show_chat()

    def on_turn_ended(self, turn: Turn) -> None:
        """See `Feature`."""
        self._show_chat()

    def on_connected(self) -> None:
        """See `Feature`."""
        self.on_state()

    def on_gauges(self, gauges: GaugesEvent) -> None:
        """See `Feature`."""
        self.on_state()

    @property
    def _bar(self) -> TitleBar:
        return self.host.composer.screen.query_one(TitleBar)

    def _show_chat(self) -> None:
        self._bar.place = branch_of(self.host.chat)
        self.on_state()

    def _kept(self) -> str:
        """Where the chat is kept, in a word; "" for one without messages."""
        chat, store = self.host.chat, self.host.store
        if chat.temporary:
            return "temporary, not written"
        if self.host.state.not_kept:
            return "NOT SAVED"
        if store is None or not chat.messages:
            return ""
        if store.database.is_locked:
            return "locked, not saved yet"
        return "saved, encrypted" if store.database.is_encrypted else "saved"

    def on_state(self) -> None:
        """Bring the model, and whether the chat is kept, up to date."""
        bar, state = self._bar, self.host.state
        bar.kept, bar.trouble = self._kept(), bool(state.not_kept) and not self.host.chat.temporary
        bar.model = clean(state.model_name or "")
        loaded = state.loaded
        if loaded is not None and loaded.state != "stopped":
            bar.model_state, bar.good = loaded.state, loaded.state == "ready"
        elif state.model is not None:
            bar.good = state.model.state == "ready"
            bar.model_state = "" if state.model.installed else "not here yet"


def branch_of(chat: Chat) -> str:
    """`2/3` of the last message on the path that has others in its place; "" where none has."""
    for message in reversed(chat.path):
        place = place_of(chat, message)
        if place is not None:
            return f"{place[0]}/{place[1]}"
    return ""
