"""`ContextTable`: every message that is sent, with its tokens."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static

from ...gauges.context_usage import ContextPart, ContextReport, Role
from ...text import number_format
from ...text.terminal_safe_text import clean
from ...transcript.markdown.markdown_preview import preview
from ...widgets.gauges.context_ribbon import ribbon_line, role_legend
from ...widgets.gauges.glyph_text import signs, wrapped
from ..dialog import Dialog

HINT = "enter goes there · o: order of size or of the chat · esc closes"
SHORT_HINT = "enter goes there · o: other order · esc closes"
PREVIEW = 200
AROUND = 11
"""Lines of the dialog that are neither the list nor the legend."""


class ContextTable(Dialog[str | None]):
    """Ends with the id of the message to go to, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "dismiss", "Close", show=False),
        Binding("o", "order", "Order", show=False),
    ]
    DEFAULT_CSS = """
    ContextTable {
        & #ribbon { height: auto; margin-bottom: 1; }
        & OptionList { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    def __init__(self, report: ContextReport) -> None:
        count = sum(part.is_message for part in report.parts)
        what = "message" if count == 1 else "messages"
        facts = f"  {count} {what} are sent with the next prompt"
        super().__init__(Content.assemble(("Context", "bold $primary"), (facts, "$muted")), "")
        self._savings = report.savings
        self._parts = report.parts
        self._use = report.use
        self._by_size = True

    def body(self) -> ComposeResult:
        """The ribbon, and a row for each message."""
        yield Static(id="ribbon", markup=False)
        yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Show the largest first."""
        self._fill()
        self.query_one(OptionList).focus()

    def on_resize(self) -> None:
        """Fit the ribbon to the dialog's width, and the list to the remaining height."""
        ribbon = self.query_one("#ribbon", Static)
        width = max(20, min(94, self.size.width * 94 // 100 - 6))
        legend = wrapped(role_legend(self._use), width, Content("   "))
        saved = self._saved()
        around = AROUND + len(legend) + saved.cell_length // width
        self.query_one(OptionList).styles.max_height = max(3, self.size.height * 9 // 10 - around)
        ribbon.update(Content("\n").join([ribbon_line(self._use, width, widest=width), *legend]))
        hint = HINT if len(HINT) <= width else SHORT_HINT
        keys = Content.assemble(saved, "\n", (hint, "$muted"))
        self.query_one(".dialog-hint", Static).update(keys)

    @property
    def rows(self) -> list[ContextPart]:
        """The messages in the order shown."""
        if not self._by_size:
            return self._parts
        return sorted(self._parts, key=lambda part: -part.tokens)

    def _saved(self) -> Content:
        saved = self._savings
        parts: list[str] = []
        if saved.compact:
            parts.append(f"/compact saves about {number_format.tokens(saved.compact)}")
        if saved.trim:
            parts.append(f"/trim saves about {number_format.tokens(saved.trim)}")
        text = " · ".join(parts) or "Nothing to save: all is recent, pinned or short."
        return Content.styled(text, "$secondary")

    def _fill(self) -> None:
        options = self.query_one(OptionList)
        options.set_options(map(self._row, self.rows))
        options.highlighted = 0 if self._parts else None

    def _row(self, part: ContextPart) -> Content:
        about = "" if part.exact else "≈ "
        share = part.tokens / max(1, sum(other.tokens for other in self._parts))
        files = f"  files ≈ {number_format.tokens(part.files)}" if part.files else ""
        if part.role in (Role.ASSISTANT, Role.SUMMARY):
            text = preview(part.text, PREVIEW)
        else:
            text = " ".join(clean(part.text[:PREVIEW]).split())
        return signs(
            [
                (part.role.glyph, part.role.style),
                f" {part.role.word:<10}",
                f"{about + number_format.tokens(part.tokens):>9}",
                (f"{number_format.percent(share):>6}  ", "$muted"),
                (files.strip() + "  " if files else "", "$success"),
                (text, "$muted"),
            ]
        )

    def action_order(self) -> None:
        """Toggle between the order of size and the order of the chat."""
        self._by_size = not self._by_size
        self._fill()

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """Go to the message."""
        message = self.rows[event.option_index].message
        self.dismiss(message.id if message is not None else None)
