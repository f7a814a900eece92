"""`Composer`: the editor at the bottom, always ready to type."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from ..chats.message import Attachment
from ..transcript.cleaning import clean

NEWLINE_KEYS = frozenset({"ctrl+j", "shift+enter", "alt+enter"})


class Composer(TextArea):
    """Enter sends; ctrl+j, shift+enter and alt+enter break the line; Up recalls when empty."""

    class Submitted(Message):
        """The user sent what is in the composer, maybe nothing; it is still there."""

        def __init__(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
            super().__init__()
            self.text = text
            self.attachments = attachments

    class RecallQueued(Message):
        """The user wants the last queued prompt back."""

    class FollowRequested(Message):
        """End was pressed where the cursor cannot go further."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, highlight_cursor_line=False, tab_behavior="focus")
        self.cursor_blink = False  # a blinking cursor repaints for ever
        self.queue_waiting = False
        self._sent: list[str] = []
        self._recalled: int | None = None

    def remember(self, text: str) -> None:
        """Keep a prompt for recalling."""
        self._sent.append(text)
        self._recalled = None

    def replace_text(self, text: str) -> None:
        """Set the text, with the cursor at its end."""
        self.text = text
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            self._take(event)
            self.post_message(self.Submitted(self.text))
        elif event.key in NEWLINE_KEYS:
            self._take(event)
            self.insert("\n")
        elif event.key in ("up", "down") and self._recall(event.key):
            self._take(event)
        elif event.key == "end" and self.cursor_location == self.get_cursor_line_end_location():
            self._take(event)
            self.post_message(self.FollowRequested())

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        start, end = self.selection
        self.replace(clean(event.text), start, end, maintain_selection_offset=False)

    @staticmethod
    def _take(event: events.Key) -> None:
        event.stop()
        event.prevent_default()

    def _recall(self, key: str) -> bool:
        """Walk through earlier prompts while the composer is empty or shows one of them."""
        if self._recalled is not None and self.text != self._sent[self._recalled]:
            self._recalled = None
        if key == "up":
            return self._recall_older()
        if self._recalled is None:
            return False
        self._recalled = self._recalled + 1 if self._recalled + 1 < len(self._sent) else None
        self.replace_text("" if self._recalled is None else self._sent[self._recalled])
        return True

    def _recall_older(self) -> bool:
        if not self.text and self.queue_waiting:
            self.post_message(self.RecallQueued())
            return True
        if self._recalled is None and (self.text or not self._sent):
            return False
        if self._recalled == 0:
            return True
        self._recalled = (len(self._sent) if self._recalled is None else self._recalled) - 1
        self.replace_text(self._sent[self._recalled])
        return True
