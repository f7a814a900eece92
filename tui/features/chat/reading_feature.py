"""`ReadingFeature`: moving through the chat, and taking text out of it."""

from __future__ import annotations

from collections.abc import Mapping

from ...text.terminal_safe_text import clean
from ..feature import Feature, Handler


class ReadingFeature(Feature):
    """Scrolls, follows, copies."""

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "page_up": lambda _: self._page(-1),
            "page_down": lambda _: self._page(1),
            "end": lambda _: self.host.transcript.follow(),
            "copy": self.copy,
        }

    def copy(self, name: str) -> None:
        """Copy a message, or the last answer."""
        chat = self.host.chat
        message = chat.messages.get(name)
        if message is None:
            answers = (m for m in reversed(chat.path) if m.role == "assistant" and m.content)
            message = next(answers, None)
        if message is None:
            self.host.tell("There is no answer to copy yet.", "warning")
            return
        self.host.copy(clean(message.content))

    def _page(self, direction: int) -> None:
        transcript = self.host.transcript
        step = max(1, transcript.size.height - 2) * direction
        transcript.scroll_relative(y=step, animate=False, immediate=True)
