"""`ChipEditor`: a text area in which a chip is one character, with the keys of shells and emacs."""

from __future__ import annotations

from collections.abc import Generator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.document._document import EditResult, Location, Selection
from textual.widgets import TextArea

from ...composing.file_mentions import find_mentions
from ...composing.prompt_templates import PLACE, next_place
from ...composing.text_chips import ChipSpan, TextChips, span_at

MAX_EXPANDED = 200_000
"""The most characters of an expanded chip: wrapping more would slow down every key."""


class ChipEditor(TextArea):
    """Moves over chips and deletes them whole; alt+y inserts the text cut last."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "chip-editor--chip",
        "chip-editor--mention",
        "chip-editor--place",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+b", "cursor_word_left", "Word left", show=False),
        Binding("alt+f", "cursor_word_right", "Word right", show=False),
        Binding("alt+less_than_sign", "cursor_text_start", "Start of the text", show=False),
        Binding("alt+greater_than_sign", "cursor_text_end", "End of the text", show=False),
        Binding("alt+d,alt+delete", "delete_word_right", "Delete word right", show=False),
        Binding("ctrl+underscore,ctrl+shift+z,super+z", "undo", "Undo", show=False),
        Binding("alt+r,super+shift+z", "redo", "Redo", show=False),
        Binding("alt+y", "yank", "Put back what was cut", show=False),
        Binding("ctrl+e", "line_end_or_expand", "Line end, or expand the chip", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        self.chips = TextChips()
        self.mentioned: AbstractSet[str] = frozenset()
        self._cut = ""
        self._is_cutting = False
        super().__init__(id=id, highlight_cursor_line=False, tab_behavior="focus")
        self.cursor_blink = False  # a blinking cursor repaints all the time

    # Chips

    def chip_at_cursor(self) -> tuple[int, ChipSpan] | None:
        """The row and the span of the chip at the cursor."""
        row, column = self.cursor_location
        span = span_at(self.chips.spans(self.document.get_line(row)), column)
        return None if span is None else (row, span)

    def validate_selection(self, selection: Selection) -> Selection:
        """Move the ends of a selection out of chips."""
        if not len(self.chips):
            return selection
        before = self.selection
        start = self._outside(selection.start, before.start)
        return Selection(start, self._outside(selection.end, before.end))

    def _outside(self, location: Location, before: Location) -> Location:
        span = self._around(location)
        if span is None:
            return location
        return location[0], span.start if location < before else span.end

    def _around(self, location: Location) -> ChipSpan | None:
        row, column = location
        if row >= self.document.line_count:
            return None
        return span_at(self.chips.spans(self.document.get_line(row)), column, inside=True)

    def delete(
        self, start: Location, end: Location, *, maintain_selection_offset: bool = True
    ) -> EditResult:
        """Delete a range, and with it the chips that it touches."""
        start, end = sorted((start, end))
        if len(self.chips):
            first, last = self._around(start), self._around(end)
            start = start if first is None else (start[0], first.start)
            end = end if last is None else (end[0], last.end)
        if self._is_cutting:
            self._cut = self.get_text_range(start, end)
        return super().delete(start, end, maintain_selection_offset=maintain_selection_offset)

    def expand_chip(self, row: int, span: ChipSpan) -> bool:
        """Replace a chip by its text; False if the text is too long."""
        content = self.chips.content(span.label)
        if len(content) > MAX_EXPANDED:
            return False
        self.history.checkpoint()
        self.replace(content, (row, span.start), (row, span.end), maintain_selection_offset=False)
        return True

    def undo(self) -> None:
        """Undo the last edits."""
        # The text area measures itself before it moves the cursor, which may be below the end then.
        self.selection = Selection()
        super().undo()

    def redo(self) -> None:
        """Redo the edits that were undone last."""
        self.selection = Selection()
        super().redo()

    # Display

    def get_line(self, line_index: int) -> Text:
        """The line, with chips, files and places to fill in styled."""
        line = super().get_line(line_index)
        text = line.plain
        for span in self.chips.spans(text):
            line.stylize(self._part("chip"), span.start, span.end)
        if self.mentioned:
            for mention in find_mentions(text):
                if mention.path in self.mentioned:
                    line.stylize(self._part("mention"), mention.start, mention.end)
        if "{{" in text:
            for match in PLACE.finditer(text):
                line.stylize(self._part("place"), match.start(), match.end())
        return line

    def _part(self, name: str):
        return self.get_component_rich_style(f"chip-editor--{name}", partial=True)

    # Keys

    def action_cursor_text_start(self) -> None:
        """Go to the beginning."""
        self.move_cursor((0, 0))

    def action_cursor_text_end(self) -> None:
        """Go to the end."""
        self.move_cursor(self.document.end)

    def action_line_end_or_expand(self) -> None:
        """Go to the end of the line; on a chip, expand it."""
        found = self.chip_at_cursor()
        if found is None:
            self.action_cursor_line_end()
        elif not self.expand_chip(*found):
            self.notify("That is too long to show here; ctrl+x opens it in your editor.")

    @contextmanager
    def _cutting(self) -> Generator[None]:
        """Keep the deleted text for `action_yank`."""
        self._is_cutting = True
        yield
        self._is_cutting = False

    # Lines end where the user broke them, as in a shell; those of a text area, at the edge.

    def action_delete_to_start_of_line(self) -> None:
        """Cut to the start of the line; there, join it with the one before."""
        row, column = self.selection.end
        with self._cutting():
            if column:
                self.delete((row, 0), (row, column), maintain_selection_offset=False)
            else:
                super().action_delete_left()

    async def action_delete_to_end_of_line_or_delete_line(self) -> None:
        """Cut to the end of the line; there, join it with the next one."""
        row, column = self.selection.end
        end = len(self.document.get_line(row))
        with self._cutting():
            if column < end:
                self.delete((row, column), (row, end), maintain_selection_offset=False)
            else:
                super().action_delete_right()

    def action_delete_word_left(self) -> None:
        """Cut the word before the cursor."""
        with self._cutting():
            super().action_delete_word_left()

    def action_delete_word_right(self) -> None:
        """Cut the word after the cursor."""
        with self._cutting():
            super().action_delete_word_right()

    def action_yank(self) -> None:
        """Insert the text that was cut last."""
        if self._cut:
            self.replace(self._cut, *self.selection, maintain_selection_offset=False)

    def select_place(self) -> bool:
        """Select the next place of a template to fill in; whether there is one."""
        text = self.text
        if "{{" not in text:
            return False
        row, column = max(self.selection)
        place = next_place(text, sum(map(len, text.split("\n")[:row])) + row + column)
        if place is None:
            return False
        begin, end = (text[:at] for at in place)
        self.move_cursor((begin.count("\n"), len(begin) - (begin.rfind("\n") + 1)))
        self.move_cursor((end.count("\n"), len(end) - (end.rfind("\n") + 1)), select=True)
        return True
