"""Converts TeX maths to text: on one line, or over several for a display formula."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from rich.cells import cell_len

from .math_parser import (
    Fraction,
    Grid,
    Node,
    Root,
    Row,
    ScriptedNode,
    Symbol,
    Untranslatable,
    parse_math,
)
from .math_symbols import LOWERED, RAISED

MAX_TRIES = 6
_UNFINISHED = re.compile(r"(?:\\[A-Za-z]*|[\^_&{\s])+\Z")
_OPEN = re.compile(r"(?<!\\)\{")
_CLOSE = re.compile(r"(?<!\\)\}")


@lru_cache(512)
def math_line(source: str) -> str | None:
    """Return the maths on one line, None if not possible."""
    try:
        text = _flat_grid(parse_math(source))
    except Untranslatable:
        return None
    return text.strip() or None


@lru_cache(64)
def math_lines(source: str, width: int) -> tuple[str, ...] | None:
    """Return the maths with fractions stacked, or flat if that is too wide; None if not
    possible.
    """
    try:
        grid = parse_math(source)
        rows = [_beside([_laid_out(cell) for cell in row]) for row in grid.rows]
    except Untranslatable:
        return None
    lines = [line.rstrip() for row in rows for line in row.lines]
    if not any(lines):
        return None
    if max(map(cell_len, lines)) > width:
        return tuple(_flat_cells(row).strip() for row in grid.rows)
    return tuple(lines)


def partial_math(source: str) -> str:
    """Return the longest start of unfinished maths that can be shown, "" for none."""
    for _ in range(MAX_TRIES):
        repaired = _UNFINISHED.sub("", source)
        repaired += "}" * (len(_OPEN.findall(repaired)) - len(_CLOSE.findall(repaired)))
        if math_line(repaired) is not None:
            return repaired
        source = source[: max(source.rfind("\\"), source.rfind("{"), 0)]
    return ""


# On one line


def _flat_cells(cells: tuple[Row, ...]) -> str:
    return " ".join(text for cell in cells if (text := _flat(cell)))


def _flat_grid(grid: Grid) -> str:
    inside = "; ".join(_flat_cells(row) for row in grid.rows)
    space = " " if grid.left == "{" else ""
    return f"{grid.left}{space}{inside}{grid.right}"


def _flat(row: Row) -> str:
    text = ""
    for place, node in enumerate(row):
        text += _spaced(
            node, _flat_node(node), text, row[place + 1] if place + 1 < len(row) else None
        )
    return text


def _spaced(node: Node, shown: str, before: str, behind: Node | None) -> str:
    """Return a node with the spaces that its kind requires."""
    kind = _kind(node)
    if kind == "relation":
        return f"{'' if before.endswith(' ') or not before else ' '}{shown} "
    if kind == "operator":
        if not before or before.endswith((" ", "(", "[", "{", ",", "|")) or behind is None:
            return shown  # a sign rather than an operation
        return shown if shown == "/" else f" {shown} "
    if kind in ("function", "large"):
        lead = " " if before and (before[-1].isalnum() or before[-1] in ")]") else ""
        closes = behind is None or _kind(behind) in ("open", "relation", "close")
        return f"{lead}{shown}{'' if closes else ' '}"
    if kind == "text" and before and before[-1].isalnum() and shown[:1].isalpha():
        return f" {shown}"
    if shown == ",":
        return ", "
    return shown


def _kind(node: Node) -> str:
    if isinstance(node, ScriptedNode):
        return _kind(node.base[0]) if len(node.base) == 1 else "letter"
    return node.kind if isinstance(node, Symbol) else "letter"


def _flat_node(node: Node) -> str:
    match node:
        case Symbol():
            return node.text
        case Fraction():
            return f"{_grouped(node.above)}/{_grouped(node.below)}"
        case Root():
            return _flat_root(node)
        case ScriptedNode():
            return _flat_script(node)
        case Grid():
            return _flat_grid(node)


def _grouped(row: Row) -> str:
    """Return the row, in parentheses unless it is a single item."""
    text = _flat(row).strip()
    simple = len(row) == 1 or text.replace(".", "").isdigit() or (text.isalpha() and len(text) < 3)
    return text if simple and not isinstance(row[0] if row else None, Fraction) else f"({text})"


def _flat_root(root: Root) -> str:
    degree = _flat(root.degree)
    signs = {"": "√", "2": "√", "3": "∛", "4": "∜"}
    sign = signs.get(degree) or (_mapped(degree, RAISED) or f"^({degree})") + "√"
    inside = _flat(root.inside)
    return f"{sign}{inside}" if len(inside) == 1 or inside.isdigit() else f"{sign}({inside})"


def _flat_script(script: ScriptedNode) -> str:
    text = _flat(script.base)
    if len(script.base) > 1:
        text = f"({text})"
    if script.low is not None:
        text += _script(_flat(script.low), LOWERED, "_")
    if script.high is not None:
        text += _script(_flat(script.high), RAISED, "^")
    return text


def _script(text: str, table: dict[str, str], sign: str) -> str:
    close = text.replace(" ", "")
    if close in ("∘", "°") and sign == "^":
        return "°"
    mapped = _mapped(close, table)
    if mapped is not None:
        return mapped
    return f"{sign}{text}" if len(text) == 1 else f"{sign}({text})"


def _mapped(text: str, table: dict[str, str]) -> str | None:
    letters = [table.get(letter) for letter in text]
    return None if None in letters else "".join(letter for letter in letters if letter)


# Over several lines


@dataclass(frozen=True, slots=True)
class _Box:
    """Lines of equal width; `base` is the index of the one on the baseline."""

    lines: tuple[str, ...]
    base: int = 0

    @property
    def width(self) -> int:
        return cell_len(self.lines[0]) if self.lines else 0


def _laid_out(row: Row) -> _Box:
    """Return boxes for stacked nodes, and the rest flat between them."""
    boxes: list[_Box] = []
    flat: list[Node] = []

    def flush() -> None:
        if flat:
            text = _flat(tuple(flat))
            # Spaces around an operator next to a box.
            lead = " " if boxes and _kind(flat[0]) in ("operator", "relation") else ""
            trail = " " if _kind(flat[-1]) in ("operator",) and not text.endswith(" ") else ""
            boxes.append(_Box((f"{lead}{text.lstrip() if lead else text}{trail}",)))
            flat.clear()

    for node in row:
        box = _stacked(node)
        if box is None:
            flat.append(node)
        else:
            flush()
            boxes.append(box)
    flush()
    return _beside(boxes)


def _stacked(node: Node) -> _Box | None:
    match node:
        case Fraction():
            return _over(_laid_out(node.above), _laid_out(node.below))
        case Grid() if len(node.rows) > 1:
            return _grid(node)
        case ScriptedNode() if len(node.base) == 1 and _kind(node.base[0]) == "large":
            return _with_limits(node)
        case _:
            return None


def _over(above: _Box, below: _Box) -> _Box:
    width = max(above.width, below.width) + 2
    lines = [*_centred(above.lines, width), "─" * width, *_centred(below.lines, width)]
    return _Box(tuple(lines), len(above.lines))


def _with_limits(script: ScriptedNode) -> _Box:
    high = [_flat(script.high)] if script.high is not None else []
    low = [_flat(script.low)] if script.low is not None else []
    parts = [*high, _flat(script.base), *low]
    width = max(map(cell_len, parts))
    return _Box(tuple(f"{line} " for line in _centred(parts, width)), len(high))


def _grid(grid: Grid) -> _Box:
    columns = max(len(row) for row in grid.rows)
    texts = [
        [_flat(cell).strip() for cell in row] + [""] * (columns - len(row)) for row in grid.rows
    ]
    widths = [max(cell_len(row[column]) for row in texts) for column in range(columns)]
    rows = [
        ("  " if grid.left or grid.right else " ").join(
            text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)
        )
        for row in texts
    ]
    last = len(rows) - 1
    lines = [
        f"{_bracket(grid.left, place, last)} {row} {_bracket(grid.right, place, last)}".rstrip()
        for place, row in enumerate(rows)
    ]
    if not grid.left and not grid.right:
        lines = rows
    width = max(map(cell_len, lines))
    return _Box(tuple(line + " " * (width - cell_len(line)) for line in lines), len(lines) // 2)


_PIECES = {"(": "⎛⎜⎝", ")": "⎞⎟⎠", "[": "⎡⎢⎣", "]": "⎤⎥⎦", "{": "⎧⎨⎩", "}": "⎫⎬⎭"}


def _bracket(sign: str, place: int, last: int) -> str:
    pieces = _PIECES.get(sign, sign * 3)
    if not pieces:
        return ""
    return pieces[0] if place == 0 else pieces[2] if place == last else pieces[1]


def _beside(boxes: list[_Box]) -> _Box:
    boxes = [box for box in boxes if box.lines]
    if not boxes:
        return _Box(())
    above = max(box.base for box in boxes)
    below = max(len(box.lines) - box.base for box in boxes)
    lines: list[str] = []
    for place in range(above + below):
        pieces: list[str] = []
        for box in boxes:
            number = place - above + box.base
            inside = 0 <= number < len(box.lines)
            pieces.append(box.lines[number] if inside else " " * box.width)
        lines.append("".join(pieces))
    return _Box(tuple(lines), above)


def _centred(lines: tuple[str, ...] | list[str], width: int) -> list[str]:
    centred: list[str] = []
    for line in lines:
        space = width - cell_len(line)
        centred.append(" " * (space // 2) + line + " " * (space - space // 2))
    return centred
