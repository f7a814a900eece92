"""`CompactChoice`: what to do with a prompt that no longer fits into the context."""

from __future__ import annotations

from textual.content import Content

from ...compaction.compaction_planner import CHOICES, Choice, full_sentence
from ..dialog import ChoiceDialog


class CompactChoice(ChoiceDialog[Choice | None]):
    """Ends with a choice, or None if the prompt is not to be sent; counts are tokens."""

    def __init__(self, used: int, prompt: int, context: int) -> None:
        super().__init__(
            "The context is full",
            [
                (choice, Content.assemble(f"{title:<20}", (what, "$muted")))
                for choice, title, what in CHOICES
            ],
            "enter chooses  ·  esc gives the prompt back",
            note=full_sentence(used, prompt, context),
        )
