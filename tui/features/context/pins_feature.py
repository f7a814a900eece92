"""`PinsFeature`: messages that every compaction keeps word for word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..feature import Feature, Handler

if TYPE_CHECKING:
    from ...chats.message import Message


class PinsFeature(Feature):
    """Pins and unpins; both take effect with the next compaction, so that the cache holds."""

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {"pin": self.pin, "pins": lambda _: self.show_pins()}

    def pin(self, name: str = "") -> None:
        """Keep a message word for word when compacting, or no longer; the last without a name."""
        chat = self.host.chat
        message = chat.messages.get(name) or chat.leaf
        if message is None:
            self.host.tell("There is nothing to pin yet.", "warning")
            return
        message.pinned = not message.pinned
        self.host.history.pin(message.id, message.pinned)
        self._show_pin(message)
        self.host.tell("Kept word for word." if message.pinned else "No longer pinned.")

    def _show_pin(self, message: Message) -> None:
        from ...transcript.entries.message_entry import MessageEntry

        entry = self.host.transcript.find_entry(message.id)
        if isinstance(entry, MessageEntry):
            entry.set_pinned(message.pinned)
            self.host.transcript.update_entry(entry)

    def show_pins(self) -> None:
        """List the pinned messages."""
        from ...screens.context.pins_screen import PinsScreen

        pinned = [message for message in self.host.chat.path if message.pinned]
        self.host.show_screen(PinsScreen(pinned), self._act_on_pin)

    def _act_on_pin(self, wish: tuple[str, str] | None) -> None:
        if wish is None:
            return
        act, name = wish
        if act == "unpin":
            self.pin(name)
            self.show_pins()
        else:
            self.host.transcript.scroll_to_entry(name)
