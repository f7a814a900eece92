"""`VimKeys`: the normal mode of an editor; in insert mode its own keys hold."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from textual import events
from textual.document._document import Location, Selection

from .chip_editor import ChipEditor

_MOTIONS = frozenset("hjklwbe0^$gG")
_OPERATORS = frozenset("dcy")
_SHORT = {"x": "dl", "X": "dh", "D": "d$", "C": "c$", "Y": "yy", "s": "cl", "S": "cc"}
_WORD = re.compile(r"\w+|[^\w\s]+")


class VimKeys:
    """Begins in insert mode; `step` handles up and down where they do more than move."""

    HELP_KEYS = (
        ("esc", "Vim: normal mode; enter sends from both modes"),
        ("i a I A o O", "Vim: insert before, after, at the ends, on a new line"),
        ("h j k l  w b e", "Vim: move; 0 ^ $ in the line, g G in the text; counts: 3w"),
        ("d c y", "Vim: delete, change, copy a motion; twice the line; x D C"),
        ("p P  u", "Vim: put after, before the cursor; undo"),
    )

    def __init__(self, editor: ChipEditor, step: Callable[[str], Awaitable[bool]]) -> None:
        self._editor = editor
        self._step = step
        self._typed = ""
        """The count and the operator of an incomplete command."""
        self._kept = ""
        self.is_normal = False

    @property
    def place(self) -> str:
        """The mode and the keys typed so far; empty in insert mode."""
        return f"NORMAL {self._typed}".rstrip() if self.is_normal else ""

    def escape(self) -> bool:
        """Leave insert mode, or an incomplete command; whether there was one."""
        if self.is_normal:
            was_typed, self._typed = bool(self._typed), ""
            return was_typed
        self.is_normal = True
        row, column = self._editor.cursor_location
        self._editor.move_cursor((row, max(0, column - 1)))
        return True

    def insert(self) -> None:
        """Begin insert mode."""
        self.is_normal = False
        self._typed = ""
        self._editor.history.checkpoint()

    def takes(self, event: events.Key) -> bool:
        """Whether a key is one of normal mode: a letter without ctrl or alt."""
        return self.is_normal and event.is_printable and not event.key.startswith("alt+")

    async def take(self, character: str) -> None:
        """Handle a letter in normal mode."""
        if character.isdigit() and (character != "0" or self._typed[-1:].isdigit()):
            self._typed += character
            return
        if character in _OPERATORS and not _operator(self._typed):
            self._typed += character
            return
        typed, self._typed = self._typed, ""
        digits = re.sub(r"\D", "", typed)
        count = min(int(digits), 9999) if digits else 1
        operator = _operator(typed)
        if character in _SHORT and not operator:
            operator, character = _SHORT[character]
        if operator:
            self._operate(operator, character, count)
        elif character in _MOTIONS:
            if character in "jk" and await self._step("down" if character == "j" else "up"):
                return
            self._editor.move_cursor(self._target(character, count, bool(digits)))
            self._stay_in_line()
        else:
            self._edit(character, count)

    # Motions

    def _target(self, motion: str, count: int, is_counted: bool = False) -> Location:
        lines = self._lines
        row, column = self._editor.cursor_location
        line = lines[row]
        match motion:
            case "h":
                return row, max(0, column - count)
            case "l":
                return row, min(len(line), column + count)
            case "j" | "k":
                row = min(max(0, row + (count if motion == "j" else -count)), len(lines) - 1)
                return row, min(column, len(lines[row]))
            case "0":
                return row, 0
            case "^":
                return row, len(line) - len(line.lstrip())
            case "$":
                return row, len(line)
            case "g" | "G":
                last = 0 if motion == "g" else len(lines) - 1
                return (min(count, len(lines)) - 1 if is_counted else last), 0
            case _:
                return self._word(motion, count)

    def _word(self, motion: str, count: int) -> Location:
        text = self._editor.text
        row, column = self._editor.cursor_location
        at = sum(len(line) + 1 for line in self._lines[:row]) + column
        words = [found.span() for found in _WORD.finditer(text)]
        if motion == "b":
            places = [0, *(start for start, _ in words if start < at)]
            at = places[max(0, len(places) - count)]
        else:
            ahead = [
                start if motion == "w" else end - 1
                for start, end in words
                if (start if motion == "w" else end - 1) > at
            ]
            at = ahead[count - 1] if count <= len(ahead) else len(text)
        before = text[:at]
        return before.count("\n"), at - (before.rfind("\n") + 1)

    # Changes

    def _operate(self, operator: str, motion: str, count: int) -> None:
        editor, lines = self._editor, self._lines
        here = editor.cursor_location
        row = here[0]
        if motion == operator:
            self._on_lines(operator, row, min(row + count, len(lines)))
            return
        if motion not in _MOTIONS or motion in "jkgG":
            return
        if operator == "c" and motion == "w":
            motion = "e"  # as in vi: the space after the word stays
        target = self._target(motion, count)
        if motion == "w" and target[0] > row:
            target = (row, len(lines[row]))
        if motion == "e":
            target = (target[0], target[1] + 1)
        start, end = sorted((here, target))
        self._kept = editor.get_text_range(start, end)
        if operator != "y":
            editor.history.checkpoint()
            editor.delete(start, end, maintain_selection_offset=False)
        if operator == "c":
            self.insert()
        else:
            editor.move_cursor(start)
            self._stay_in_line()

    def _on_lines(self, operator: str, first: int, end: int) -> None:
        editor, lines = self._editor, self._lines
        self._kept = "\n".join(lines[first:end]) + "\n"
        if operator == "y":
            return
        editor.history.checkpoint()
        last = (end - 1, len(lines[end - 1]))
        if operator == "c":
            editor.delete((first, 0), last, maintain_selection_offset=False)
            self.insert()
            return
        if end < len(lines):
            editor.delete((first, 0), (end, 0), maintain_selection_offset=False)
        else:
            before = (first - 1, len(lines[first - 1])) if first else (0, 0)
            editor.delete(before, last, maintain_selection_offset=False)
        editor.move_cursor((min(first, editor.document.line_count - 1), 0))

    def _edit(self, key: str, count: int) -> None:
        editor = self._editor
        row, column = editor.cursor_location
        line = self._lines[row]
        match key:
            case "i":
                self.insert()
            case "a" | "A" | "I":
                place = {"a": min(column + 1, len(line)), "A": len(line)}.get(key, 0)
                self.insert()
                editor.move_cursor((row, place))
            case "o" | "O":
                self.insert()
                place = (row, len(line) if key == "o" else 0)
                editor.replace("\n", place, place, maintain_selection_offset=False)
                editor.move_cursor((row + (key == "o"), 0))
            case "p" | "P":
                self._put(after=key == "p", count=count)
            case "u":
                for _ in range(count):
                    editor.undo()
                editor.selection = Selection.cursor(editor.selection.end)
            case _:
                pass  # no command: as in vi, nothing happens

    def _put(self, *, after: bool, count: int) -> None:
        editor, kept = self._editor, self._kept * count
        if not kept:
            return
        row, column = editor.cursor_location
        line = self._lines[row]
        editor.history.checkpoint()
        if kept.endswith("\n"):
            place = (row, len(line)) if after else (row, 0)
            text = f"\n{kept[:-1]}" if after else kept
            editor.replace(text, place, place, maintain_selection_offset=False)
            editor.move_cursor((row + after, 0))
        else:
            place = (row, min(column + after, len(line)))
            editor.replace(kept, place, place, maintain_selection_offset=False)
            self._editor.move_cursor_relative(columns=-1)

    @property
    def _lines(self) -> Sequence[str]:
        return self._editor.document.lines

    def _stay_in_line(self) -> None:
        """Leave the place after the last letter, which insert mode alone has."""
        row, column = self._editor.cursor_location
        end = max(0, len(self._lines[row]) - 1)
        if column > end:
            self._editor.move_cursor((row, end))


def _operator(typed: str) -> str:
    return next((letter for letter in typed if letter in _OPERATORS), "")
