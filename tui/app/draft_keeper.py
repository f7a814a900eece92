"""The draft of the open chat: which prompt it edits, and its copy in the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..chats.message import QueuedPrompt

if TYPE_CHECKING:
    from ..chats.message import Attachment, Message
    from .chat_screen import ChatScreen


class DraftKeeper:
    """Writes the draft to the history when it changed; `edits` is the prompt it will replace."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._saved = ""
        self.edits: Message | None = None

    def save(self) -> None:
        """Write the draft and the waiting prompts, unless they are written already."""
        screen = self._screen
        text = screen.composer.kept_draft(screen.queue.texts)
        if text != self._saved:
            self._saved = text
            screen.history.save_draft(screen.chat.id, text)

    def load(
        self, text: str, attachments: Sequence[Attachment] = (), edits: Message | None = None
    ) -> None:
        """Put a text into the composer; sending it replaces the prompt `edits`, if given."""
        self.edits = edits
        self._screen.composer.load(text, attachments)

    def take(self, prompt: QueuedPrompt | None, before: str = "") -> None:
        """Put a prompt that waited into the composer, above the text `before`."""
        screen = self._screen
        if prompt is not None:
            text = "\n\n".join(filter(None, (prompt.text, before)))
            self.load(text, prompt.attachments, prompt.edits)
        screen.composer.queue_waiting = len(screen.queue) > 0

    def as_prompt(self, text: str, attachments: tuple[Attachment, ...]) -> QueuedPrompt:
        """A prompt to send, in the place of the one that was edited."""
        prompt = QueuedPrompt(text, attachments, self.edits)
        self.edits = None
        return prompt

    def cancel_edit(self) -> bool:
        """Leave the edited prompt as it was; False if none is edited."""
        if self.edits is None:
            return False
        self.edits = None
        self._screen.composer.replace_text("")
        return True

    def leave_chat(self) -> None:
        """Keep the draft with its chat; that of a chat without messages goes to the next one."""
        screen = self._screen
        self.edits = None
        if screen.chat.messages:
            self.save()
            screen.composer.text = ""
        elif self._saved:
            screen.history.save_draft(screen.chat.id, "")
        self._saved = ""
