"""`SummaryScreen`: read, edit, redo or undo the summary of earlier messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, TextArea

from ...chats.message import CompactionRecord
from ...commands.chat_session import SummaryAction
from ...commands.command_results import CommandRefused
from ...text import number_format
from ...text.terminal_safe_text import clean
from ..dialog import Dialog

LEGEND = "ctrl+s keep · ctrl+x $EDITOR · ctrl+r redo · F7 undo · esc close"
FOCUS = "Take special care of … (enter summarises again)"


def _facts(made: CompactionRecord) -> str:
    parts = [f"of {number_format.counted(made.turns, 'turn')}"]
    if made.tokens_before:
        before, after = map(number_format.tokens, (made.tokens_before, made.tokens_after))
        parts.append(f"{before} → {after} tokens")
    if made.model:
        parts.append(clean(made.model))
    if made.focus:
        parts.append(f"focus: {clean(made.focus)}")
    return " · ".join(parts)


class SummaryScreen(Dialog[SummaryAction | None]):
    """Shows one compaction; ends with an action, or None if everything stays."""

    DEFAULT_CSS = """
    SummaryScreen TextArea, SummaryScreen TextArea:focus {
        height: 1fr; border: none; background: $surface; padding: 0;
    }
    SummaryScreen #focus { display: none; border: round $edge; height: 3; }
    SummaryScreen.-asking #focus { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "keep", "Keep", show=False, priority=True),
        Binding("ctrl+x", "editor", "Editor", show=False, priority=True),
        Binding("ctrl+r", "redo", "Redo", show=False, priority=True),
        Binding("f7", "undo", "Undo", show=False, priority=True),
        Binding("escape", "cancel", "Close", show=False, priority=True),
    ]

    def __init__(
        self, compaction: CompactionRecord, in_editor: Callable[[str], Awaitable[str]]
    ) -> None:
        facts = (f"  {_facts(compaction)}", "$muted")
        super().__init__(Content.assemble(("Summary", "bold $primary"), facts), LEGEND)
        self._in_editor = in_editor
        self._compaction = compaction

    def body(self) -> ComposeResult:
        """The summary, and the line for a focus."""
        yield TextArea(clean(self._compaction.summary), id="summary", soft_wrap=True)
        yield Input(placeholder=FOCUS, id="focus")

    def on_mount(self) -> None:
        """Focus the text, with the cursor at its start."""
        area = self.query_one(TextArea)
        area.cursor_blink = False
        area.focus()

    def action_keep(self) -> None:
        """End with the text, if it was changed."""
        text = self.query_one(TextArea).text.strip()
        unchanged = not text or text == clean(self._compaction.summary).strip()
        self.dismiss(None if unchanged else SummaryAction("edit", text))

    async def action_editor(self) -> None:
        """Edit the text in the editor of the user's choice."""
        area = self.query_one(TextArea)
        try:
            area.text = await self._in_editor(area.text)
        except CommandRefused as error:
            self.notify(error.message, severity="warning", markup=False)

    def action_redo(self) -> None:
        """Ask for a focus."""
        self.add_class("-asking")
        self.query_one("#focus", Input).focus()

    @on(Input.Submitted, "#focus")
    def redo(self, event: Input.Submitted) -> None:
        """End with a request for another summary."""
        self.dismiss(SummaryAction("redo", event.value.strip()))

    def action_undo(self) -> None:
        """End with a request for the originals."""
        self.dismiss(SummaryAction("undo"))

    def action_cancel(self) -> None:
        """Go back to the text, or end without a change."""
        if self.has_class("-asking"):
            self.remove_class("-asking")
            self.query_one(TextArea).focus()
        else:
            self.dismiss(None)
