"""Choices of the chat: a prompt to go back to, a pinned message, a way out of a full context."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from ..chats.message import Message
from ..compaction.compaction_planner import CHOICES, Choice, PromptRoom
from ..text.terminal_safe_text import clean
from ..transcript.markdown.markdown_preview import preview
from .dialog import ChoiceDialog

REWIND_LEGEND = "enter edits it as a new version; the old one stays  ·  esc closes"
PINS_LEGEND = "enter goes there  ·  delete unpins  ·  esc closes"
NO_PINS = (
    "No message is pinned. /pin pins the last one, p the block you are on. "
    "Summaries keep pinned messages verbatim."
)
SHOWN = 200
"""The most characters of a message that are shown."""


class RewindScreen(ChoiceDialog[Message | None]):
    """Ends with the chosen prompt, or None."""

    DEFAULT_CSS = "RewindScreen OptionList { text-wrap: nowrap; text-overflow: ellipsis; }"

    def __init__(self, prompts: Sequence[Message]) -> None:
        choices = [(prompt, _prompt_line(prompt)) for prompt in prompts]
        super().__init__(
            "Back to a prompt",
            choices,
            REWIND_LEGEND,
            at=len(choices) - 1,
        )


def _prompt_line(prompt: Message) -> Content:
    words = " ".join(clean(prompt.content[:SHOWN]).split())
    when = time.strftime("%H:%M", time.localtime(prompt.created))
    return Content.assemble((f"{when}  ", "$muted"), words)


class PinsScreen(ChoiceDialog[tuple[str, str] | None]):
    """Ends with an action, `go` or `unpin`, and a message's id; or None."""

    DEFAULT_CSS = "PinsScreen OptionList { text-wrap: nowrap; text-overflow: ellipsis; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("delete,backspace", "unpin", "Unpin", show=False)
    ]

    def __init__(self, pinned: Sequence[Message]) -> None:
        self._ids = [message.id for message in pinned]
        super().__init__(
            "Pinned messages",
            [(("go", message.id), _pin_line(message)) for message in pinned],
            PINS_LEGEND if pinned else "esc closes",
            note="" if pinned else NO_PINS,
            at=len(pinned) - 1,
        )

    def action_unpin(self) -> None:
        """Unpin the message on the line."""
        index = self.query_one(OptionList).highlighted
        if index is not None:
            self.dismiss(("unpin", self._ids[index]))


def _pin_line(message: Message) -> Content:
    if message.role == "user":
        who, words = "you", " ".join(clean(message.content[:SHOWN]).split())
    else:
        who, words = message.model or "model", preview(message.content, SHOWN)
    return Content.assemble(("◆ ", "$secondary"), (f"{clean(who)}  ", "$muted"), words)


class CompactChoice(ChoiceDialog[Choice | None]):
    """Ends with a choice, or None if the prompt is not to be sent."""

    def __init__(self, room: PromptRoom, ways: Sequence[Choice]) -> None:
        width = max(len(CHOICES[way][0]) for way in ways) + 2
        super().__init__(
            "The prompt does not fit",
            [
                (way, Content.assemble(f"{CHOICES[way][0]:<{width}}", (CHOICES[way][1], "$muted")))
                for way in ways
            ],
            "enter chooses  ·  esc returns to the draft",
            note=room.sentence,
        )
