"""`OutputQueue`: what the terminal does not show yet, as the newest state of the screen."""

from __future__ import annotations

import re

from textual._ansi_sequences import SYNC_END, SYNC_START  # pyright: ignore[reportPrivateUsage]
from textual._cells import cell_len

_MOVE = re.compile(r"\x1b\[(\d+);(\d+)H")
_INVISIBLE = re.compile(r"\x1b\[[\d;:]*m|\x1b\]8;.*?\x1b\\|\n")
_OTHER_SCREEN = re.compile(r"\x1b\[\?1049[hl]")


class OutputQueue:
    """Pieces of screen rows, of which new ones replace those that they cover, and control output.

    Control output, such as a change of modes, is taken first: it belongs to no row.
    """

    def __init__(self) -> None:
        self._control: list[str] = []
        self._rows: dict[int, list[tuple[range, str]]] = {}
        """By row: columns and pieces; later pieces paint over earlier ones."""
        self._urgent: set[int] = set()
        self._cursor = ""
        self._syncs = False

    def __bool__(self) -> bool:
        return bool(self._control or self._rows or self._cursor)

    def put(self, text: str, *, first: bool = False) -> None:
        """Add output, a whole frame or one control sequence; with `first`, before other rows."""
        if text in (SYNC_START, SYNC_END):
            self._syncs = True  # `take` adds them where they fit
            return
        if _MOVE.match(text) is None:
            if _OTHER_SCREEN.search(text):
                self._rows.clear()  # they were for the screen that is left
                self._cursor = ""
            self._control.append(text)
            return
        moves = list(_MOVE.finditer(text))
        ends = [*(move.start() for move in moves[1:]), len(text)]
        for move, end in zip(moves, ends, strict=True):
            piece = text[move.start() : end].removesuffix("\n")
            width = cell_len(_INVISIBLE.sub("", piece[len(move[0]) :]))
            if width == 0:
                self._cursor = piece
                continue
            row, column = int(move[1]), int(move[2])
            end_column = column + width
            waiting = [
                (columns, other)
                for columns, other in self._rows.get(row, ())
                if columns.start < column or columns.stop > end_column
            ]
            self._rows[row] = [*waiting, (range(column, end_column), piece)]
            if first:
                self._urgent.add(row)

    def take(self, room: int) -> str:
        """Return control output, then rows up to `room` characters, at least one.

        Urgent rows are first, then those that wait longest.
        """
        taken = self._control
        self._control = []
        size = sum(map(len, taken))
        for row in sorted(self._rows, key=lambda row: row not in self._urgent):
            if taken and size >= room:
                break
            taken += (piece for _, piece in self._rows.pop(row))
            self._urgent.discard(row)
            size = sum(map(len, taken))
        if self._cursor and not self._rows:
            taken.append(self._cursor)
            self._cursor = ""
        text = "".join(taken)
        # In parts it is displayed as it comes: a terminal would hold back typed text, too.
        return f"{SYNC_START}{text}{SYNC_END}" if self._syncs and not self._rows else text
