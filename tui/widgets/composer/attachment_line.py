"""`AttachmentLine`: what will be sent along with the draft, and how much that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from ...text import number_format
from ...text.terminal_safe_text import clean


@dataclass(frozen=True, slots=True)
class AttachmentFacts:
    """One thing that is sent along; `size` in characters, or in bytes where it is on disk."""

    name: str
    size: int
    files: int = 1
    on_disk: bool = False
    problem: str = ""


class AttachmentLine(Widget):
    """Names, sizes and troubles above the composer; hidden while nothing is sent along."""

    DEFAULT_CSS = """
    AttachmentLine { height: auto; max-height: 4; width: 100%; padding: 0 2; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._facts: Sequence[AttachmentFacts] = ()

    def show(self, facts: Sequence[AttachmentFacts]) -> None:
        """Show these; nothing hides the line."""
        if facts != self._facts:
            self._facts = facts
            self.display = bool(facts)
            self.refresh(layout=True)

    def render(self) -> RenderResult:
        parts = [self._part(facts) for facts in self._facts]
        return Content("  ·  ").stylize("$edge").join(parts)

    @staticmethod
    def _part(facts: AttachmentFacts) -> Content:
        if facts.problem:
            return Content(f"! {clean(facts.problem)}").stylize("$warning")
        size = (
            number_format.size(facts.size)
            if facts.on_disk
            else f"{number_format.tokens(facts.size)} characters"
        )
        count = f"{facts.files} files, " if facts.files != 1 else ""
        name = Content(f"+ {clean(facts.name)} ").stylize("$secondary")
        return Content.assemble(name, (count + size, "$muted"))
