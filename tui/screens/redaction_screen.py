"""`RedactionScreen`: a text as it would be sent, with masks that can be toggled one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static

from ..privacy.pii_scanner import PrivateSpan, masks, pieces, redact
from ..text.terminal_safe_text import clean
from .dialog import Dialog

PREVIEWED = 20_000
"""Characters of the preview; the copy is of the whole text."""
NOTHING_SENT = "Nothing is sent now: no cloud provider is configured."
HINT = "space masks or shows · a all · y copies this text · esc closes"
LIMITS = "Found by shape and check digit. What has no such shape is not found: names, for one."


class RedactionScreen(Dialog[str | None]):
    """Ends with the text to copy, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "dismiss", "Close", show=False),
        Binding("space", "mask", "Mask or show", show=False),
        Binding("a", "mask_all", "All", show=False),
        Binding("y", "copy", "Copy", show=False),
    ]

    def __init__(self, text: str, findings: Sequence[PrivateSpan]) -> None:
        super().__init__("What would leave, and what would not", f"{LIMITS}\n{HINT}")
        self._text = text
        self._findings = list(findings)
        self._masks = masks(text, findings)
        self._shown: set[int] = set()

    def body(self) -> ComposeResult:
        """The findings, and the text with its masks."""
        yield Static(Content(NOTHING_SENT).stylize("$success"), id="sent")
        if self._findings:
            yield OptionList(*map(self._row, range(len(self._findings))), markup=False)
        else:
            yield Static(Content("Nothing was found to mask.").stylize("$muted"))
        with VerticalScroll(can_focus=False):
            yield Static(self._preview(), id="preview")

    def on_mount(self) -> None:
        """Highlight the first finding."""
        if self._findings:
            options = self.query_one(OptionList)
            options.highlighted = 0
            options.focus()

    def _row(self, index: int) -> Content:
        finding = self._findings[index]
        value = " ".join(clean(self._text[finding.start : finding.end]).split())
        short = value if len(value) <= 40 else f"{value[:39]}…"
        if index in self._shown:
            return Content.assemble(("○ shown   ", "$error"), f"{finding.kind:<14}", short)
        mask = self._masks[index]
        return Content.assemble(
            ("● masked  ", "$success"), f"{finding.kind:<14}", (f"{short}  ", "$muted"), mask
        )

    def _preview(self) -> Content:
        parts: list[Content] = []
        room = PREVIEWED
        for piece in pieces(self._text, self._findings, self._shown):
            words = Content(clean(piece.text[:room]))
            if piece.finding is not None:
                words = words.stylize("bold $success" if piece.masked else "underline $error")
            parts.append(words)
            room -= len(piece.text)
            if room <= 0:
                parts.append(Content("…").stylize("$muted"))
                break
        return Content("").join(parts)

    def _changed(self) -> None:
        options = self.query_one(OptionList)
        for index in range(len(self._findings)):
            options.replace_option_prompt_at_index(index, self._row(index))
        self.query_one("#preview", Static).update(self._preview())

    @on(OptionList.OptionSelected)
    def chosen(self) -> None:
        """Toggle the mask, as space does."""
        self.action_mask()

    def action_mask(self) -> None:
        """Mask the highlighted finding, or show it."""
        if not self._findings:
            return
        index = self.query_one(OptionList).highlighted
        if index is not None:
            self._shown ^= {index}
            self._changed()

    def action_mask_all(self) -> None:
        """Show all findings, or mask all again."""
        if self._findings:
            self._shown = set() if self._shown else set(range(len(self._findings)))
            self._changed()

    def action_copy(self) -> None:
        """End with the text as it is shown."""
        self.dismiss(redact(self._text, self._findings, self._shown))
