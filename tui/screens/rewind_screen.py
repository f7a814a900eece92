"""`RewindScreen`: choose a prompt to go back to."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.content import Content

from ..chats.message import Message
from ..text.terminal_safe_text import clean
from .dialog import ChoiceDialog

LEGEND = "enter edits it, as a branch; what came later stays  ·  esc closes"
SHOWN = 200
"""Characters of a prompt that its line shows."""


class RewindScreen(ChoiceDialog[Message | None]):
    """Ends with the chosen prompt, or None."""

    def __init__(self, prompts: Sequence[Message]) -> None:
        choices = [(prompt, _row(prompt)) for prompt in prompts]
        super().__init__("Back to a prompt", choices, LEGEND, at=len(choices) - 1)


def _row(prompt: Message) -> Content:
    words = " ".join(clean(prompt.content[:SHOWN]).split())
    when = time.strftime("%H:%M", time.localtime(prompt.created))
    return Content.assemble((f"{when}  ", "$muted"), words)
