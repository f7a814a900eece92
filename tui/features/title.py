"""`TitleFeature`: what the line at the top says of the chat and its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..path_entries import place_of
from ..privacy.route import route_to
from ..transcript.cleaning import clean
from ..widgets.title_bar import TitleBar
from .feature import Feature

if TYPE_CHECKING:
    from ..api import GaugesEvent
    from ..chats.chat import Chat
    from ..turn import Turn


class TitleFeature(Feature):
    """Keeps the title bar up to date; whether the chat is written is the history's to say."""

    def on_ready(self) -> None:
        """See `Feature`."""
        bar = self._bar
        bar.route = route_to(self.host.client.endpoint)
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
        self.show_model()

    def on_gauges(self, gauges: GaugesEvent) -> None:
        """See `Feature`."""
        self.show_model()

    @property
    def _bar(self) -> TitleBar:
        return self.host.composer.screen.query_one(TitleBar)

    def _show_chat(self) -> None:
        bar, chat = self._bar, self.host.chat
        bar.place = branch_of(chat)
        if chat.temporary:
            bar.kept, bar.trouble = "temporary, not written", False
        elif bar.kept.startswith("temporary"):
            bar.kept = ""
        self.show_model()

    def show_model(self) -> None:
        """Bring the model's name and state up to date."""
        bar, state = self._bar, self.host.state
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
