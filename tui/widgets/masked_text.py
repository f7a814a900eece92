"""`MaskedText`: texts as they would leave, with a cursor that moves by word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click
from textual.geometry import Region
from textual.message import Message
from textual.style import Style
from textual.widgets import Static

from ..privacy.text_review import ReviewedPiece
from ..text.terminal_safe_text import clean

_STYLES = {"plain": "", "masked": "bold $success", "found": "underline $warning"}


class MaskedText(Static, can_focus=True):
    """Titles with the pieces of their texts; the screen acts on the selection."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Word before", show=False),
        Binding("right", "move(1)", "Next word", show=False),
        Binding("shift+left", "move(-1, True)", "Select back", show=False),
        Binding("shift+right", "move(1, True)", "Select on", show=False),
        Binding("up", "move_line(-1)", "Line above", show=False),
        Binding("down", "move_line(1)", "Line below", show=False),
        Binding("home", "move(-1000000)", "First word", show=False),
        Binding("end", "move(1000000)", "Last word", show=False),
        Binding("v", "select", "Select", show=False),
    ]

    class Clicked(Message):
        """A word was clicked, and is the selection now."""

    def __init__(self) -> None:
        super().__init__(id="preview")
        self._parts: Sequence[tuple[str, Sequence[ReviewedPiece]]] = ()
        self._words: list[ReviewedPiece] = []
        self._cursor = 0
        self._anchor: int | None = None
        self._more = ""
        self._wrapped: tuple[int, list[int]] = (0, [])
        """The width, and the row of each word at that width."""

    @property
    def selection(self) -> list[ReviewedPiece]:
        """The words from the anchor to the cursor, as far as they are in the cursor's text."""
        if not self._words:
            return []
        first, last = self._range()
        return self._words[first : last + 1]

    def show(self, parts: Sequence[tuple[str, Sequence[ReviewedPiece]]], more: str = "") -> None:
        """Show titles and pieces; the cursor stays at its place in the original text."""
        before = self.selection[:1]
        self._parts, self._more = parts, more
        self._words = [piece for _, pieces in parts for piece in pieces if piece.is_word]
        self._anchor = None
        self._wrapped = (0, [])
        places = (
            number
            for number, word in enumerate(self._words)
            for old in before
            if word.part == old.part and word.end > old.start
        )
        self._cursor = next(places, 0)
        self._draw()

    def _range(self) -> tuple[int, int]:
        anchor = self._cursor if self._anchor is None else self._anchor
        return min(anchor, self._cursor), max(anchor, self._cursor)

    def _content(self) -> Content:
        first, last = self._range()
        drawn: list[Content | str] = []
        number = 0
        for title, pieces in self._parts:
            drawn.append(Content(f"{title}\n").stylize("$muted") if title else "")
            for piece in pieces:
                # The space inside a selection belongs to it.
                inside = first <= number - (not piece.is_word) and number <= last
                content = Content(clean(piece.text)).stylize(_STYLES[piece.state])
                if piece.is_word:
                    content = content.stylize(Style.from_meta({"word": number}))
                    number += 1
                drawn.append(content.stylize("reverse") if inside else content)
            drawn.append("\n\n")
        return Content.assemble(*drawn[:-1], (self._more, "$muted"))

    def _draw(self) -> None:
        self.update(self._content())
        self.call_after_refresh(self._scroll_to_cursor)

    def _rows(self) -> list[int]:
        """Return the row of each word as it is wrapped now."""
        width = max(1, self.content_size.width)
        if self._wrapped[0] != width:
            rows: dict[int, int] = {}
            for row, line in enumerate(self._content().wrap(width)):
                for span in line.spans:
                    if isinstance(span.style, Style) and "word" in span.style.meta:
                        rows.setdefault(span.style.meta["word"], row)
            self._wrapped = width, [rows.get(number, 0) for number in range(len(self._words))]
        return self._wrapped[1]

    def _scroll_to_cursor(self) -> None:
        if self._words and self.is_attached and self.parent is not None:
            row = self._rows()[self._cursor]
            self.screen.query_one("#texts").scroll_to_region(
                Region(0, row, 1, 1), animate=False, force=True
            )

    def action_move(self, by: int, selecting: bool = False) -> None:
        """Move by words; with `selecting`, select them."""
        if selecting and self._anchor is None:
            self._anchor = self._cursor
        self._move_to(self._cursor + by)

    def action_move_line(self, by: int) -> None:
        """Move to the first word of a line above or below."""
        rows = self._rows()
        if not rows:
            return
        row = rows[self._cursor]
        if by > 0:
            place = next((n for n, other in enumerate(rows) if other > row), len(rows) - 1)
        else:
            above = max((other for other in rows if other < row), default=rows[0])
            place = rows.index(above)
        self._move_to(place)

    def _move_to(self, place: int) -> None:
        place = max(0, min(place, len(self._words) - 1))
        if self._anchor is not None and self._words:
            # A selection is in one text.
            part = self._words[self._anchor].part
            step = 1 if place < self._anchor else -1
            while self._words[place].part != part:
                place += step
        self._cursor = place
        self._draw()

    def action_select(self) -> None:
        """Begin a selection at the cursor, or end it."""
        self._anchor = self._cursor if self._anchor is None else None
        self._draw()

    def on_click(self, event: Click) -> None:
        """Make the clicked word the selection."""
        word = event.style.meta.get("word")
        if word is not None:
            self._anchor = None
            self._move_to(word)
            self.post_message(self.Clicked())
