"""Parses TeX maths into a tree; unsupported commands reject the whole source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from . import math_symbols

MAX_LENGTH = 2000
MAX_DEPTH = 24
_TOKEN = re.compile(r"\\(?:[A-Za-z]+\*?|.)|[^\s\\]|\s+", re.DOTALL)
_BRACED = re.compile(r"\s*\{([^{}]*)\}")


class Untranslatable(Exception):
    """The source cannot be shown as text."""


Kind = Literal[
    "letter", "operator", "relation", "function", "large", "open", "close", "space", "text"
]


@dataclass(frozen=True, slots=True)
class Symbol:
    """Characters that belong together."""

    text: str
    kind: Kind = "letter"


@dataclass(frozen=True, slots=True)
class Fraction:
    """A fraction."""

    above: Row
    below: Row


@dataclass(frozen=True, slots=True)
class Root:
    """A root; `degree` is empty for the square root."""

    inside: Row
    degree: Row


@dataclass(frozen=True, slots=True)
class ScriptedNode:
    """A base with subscript and superscript, None without one."""

    base: Row
    low: Row | None
    high: Row | None


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of cells between brackets."""

    rows: tuple[tuple[Row, ...], ...]
    left: str
    right: str


Node = Symbol | Fraction | Root | ScriptedNode | Grid
Row = tuple[Node, ...]

_BRACKETS = {
    "matrix": ("", ""), "smallmatrix": ("", ""), "pmatrix": ("(", ")"), "bmatrix": ("[", "]"),
    "vmatrix": ("|", "|"), "Vmatrix": ("‖", "‖"), "Bmatrix": ("{", "}"), "cases": ("{", ""),
    "array": ("", ""),
}  # fmt: skip
_LINES = {"aligned", "align", "align*", "gathered", "gather", "gather*", "split", "equation",
          "equation*", "alignat", "eqnarray", "eqnarray*", "multline"}  # fmt: skip


def parse_math(source: str) -> Grid:
    """Return the rows and aligned cells of the source, without brackets."""
    if len(source) > MAX_LENGTH:
        raise Untranslatable
    parser = _Parser(_TOKEN.findall(source))
    rows = parser.rows(end=None)
    return Grid(rows, "", "")


class _Parser:
    def __init__(self, pieces: list[str]) -> None:
        self._tokens = pieces
        self._at = 0
        self._depth = 0

    def rows(self, end: str | None) -> tuple[tuple[Row, ...], ...]:
        """Parse cells separated by `&` and rows by two backslashes, up to the end of an
        environment.
        """
        rows: list[tuple[Row, ...]] = []
        cells: list[Row] = []
        while True:
            cells.append(self._row(("&", "\\\\", "\\end")))
            stop = self._next()
            if stop == "&":
                continue
            rows.append(tuple(cells))
            cells = []
            if stop == "\\\\":
                continue
            if (stop is None) != (end is None) or (end is not None and self._braced() != end):
                raise Untranslatable
            return tuple(row for row in rows if any(row))

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str | None:
        piece = self._peek()
        self._at += 1
        return piece

    def _row(self, stops: tuple[str, ...]) -> Row:
        """Parse nodes up to one of `stops`, which is not consumed, or to the end."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Untranslatable
        nodes: list[Node] = []
        while (piece := self._peek()) is not None and piece not in stops:
            if piece in ("}", "\\end"):
                raise Untranslatable
            if piece in ("^", "_", "'"):
                base = nodes.pop() if nodes else None
                nodes.append(self._script(() if base is None else (base,)))
            else:
                nodes += self._node()
        self._depth -= 1
        return tuple(nodes)

    def _script(self, base: Row) -> ScriptedNode:
        low: Row | None = None
        high: Row | None = None
        while (piece := self._peek()) in ("^", "_", "'"):
            self._at += 1
            if piece == "'":
                high = (*(high or ()), Symbol("′"))
            elif piece == "^":
                high = (*(high or ()), *self._argument())
            elif low is None:
                low = self._argument()
            else:
                raise Untranslatable
        return ScriptedNode(base, low, high)

    def _argument(self) -> Row:
        """Parse a group in braces, or the next node."""
        while (piece := self._peek()) is not None and piece.isspace():
            self._at += 1
        if piece is None or piece in ("}", "&", "\\\\", "\\end"):
            raise Untranslatable
        return self._group() if piece == "{" else tuple(self._node())

    def _group(self) -> Row:
        self._at += 1
        row = self._row(("}",))
        if self._next() != "}":
            raise Untranslatable
        return row

    def _node(self) -> list[Node]:
        piece = self._next()
        assert piece is not None
        if piece.isspace():
            return []
        if piece == "{":
            self._at -= 1
            return list(self._group())
        if not piece.startswith("\\"):
            return [_character(piece)]
        return self._command(piece[1:])

    def _command(self, name: str) -> list[Node]:
        if name in math_symbols.SYMBOLS:
            return [_character(math_symbols.SYMBOLS[name])]
        if name in math_symbols.RELATIONS:
            return [Symbol(math_symbols.RELATIONS[name], "relation")]
        if name in math_symbols.OPERATORS:
            return [Symbol(math_symbols.OPERATORS[name], "operator")]
        if name in math_symbols.LARGE:
            return [Symbol(math_symbols.LARGE[name], "large")]
        if name in math_symbols.FUNCTIONS:
            return [Symbol(name, "large" if name.startswith("lim") else "function")]
        if name in math_symbols.SPACES:
            return [Symbol(math_symbols.SPACES[name], "space")] if math_symbols.SPACES[name] else []
        if name in math_symbols.LITERALS:
            return [_character(name) if name in "{}" else Symbol(name)]
        if name == "|":
            return [Symbol("‖")]
        if name in math_symbols.IGNORED:
            return self._skip_point(name)
        return self._structure(name)

    def _skip_point(self, name: str) -> list[Node]:
        if name in ("left", "right", "middle") and self._peek() == ".":
            self._at += 1
        return []

    def _structure(self, name: str) -> list[Node]:
        if name in ("frac", "dfrac", "tfrac", "cfrac"):
            return [Fraction(self._argument(), self._argument())]
        if name in ("binom", "dbinom", "tbinom"):
            return [Grid(((self._argument(),), (self._argument(),)), "(", ")")]
        if name == "sqrt":
            return [self._root()]
        if name in math_symbols.PLAIN:
            return list(self._argument())
        if name in math_symbols.TEXTS:
            return [Symbol(self._braced(), "text")]
        if name in math_symbols.ACCENTS:
            return [_accented(self._argument(), math_symbols.ACCENTS[name])]
        if name in ("mathbb", "mathcal", "mathscr"):
            table = math_symbols.DOUBLE_STRUCK if name == "mathbb" else math_symbols.SCRIPT
            return [Symbol("".join(table.get(letter, letter) for letter in self._braced()))]
        if name == "not":
            return [_negated(self._argument())]
        if name in ("tag", "label"):
            self._braced()
            return []
        if name in ("pmod", "mod"):
            inside = self._argument()
            words = Symbol("mod", "function")
            return [Symbol("(", "open"), words, *inside, Symbol(")", "close")]
        if name == "begin":
            return [self._environment()]
        raise Untranslatable

    def _root(self) -> Root:
        degree: Row = ()
        if self._peek() == "[":
            self._at += 1
            degree = self._row(("]",))
            if self._next() != "]":
                raise Untranslatable
        return Root(self._argument(), degree)

    def _braced(self) -> str:
        """Return the characters of a group without nested groups."""
        rest = "".join(self._tokens[self._at :])
        match = _BRACED.match(rest)
        if match is None:
            piece = self._next()
            if piece is None or not piece.isalnum():
                raise Untranslatable
            return piece
        length = 0
        while length < match.end():
            length += len(self._tokens[self._at])
            self._at += 1
        return re.sub(r"\\([%$#&_{}])", r"\1", match[1])

    def _environment(self) -> Grid:
        name = self._braced()
        if name == "array":
            self._braced()
        if name not in _BRACKETS and name not in _LINES:
            raise Untranslatable
        left, right = _BRACKETS.get(name, ("", ""))
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Untranslatable
        rows = self.rows(end=name)
        self._depth -= 1
        return Grid(rows, left, right)


_CHARACTERS: dict[str, Kind] = {
    "=<>≤≥:": "relation", "+*/-": "operator", "([{⟨⌈⌊": "open", ")]}⟩⌉⌋": "close"
}  # fmt: skip


def _character(character: str) -> Symbol:
    for characters, kind in _CHARACTERS.items():
        if character in characters:
            return Symbol("−" if character == "-" else character, kind)
    return Symbol(" " if character == "~" else character)


def _accented(inside: Row, mark: str) -> Symbol:
    if not all(isinstance(node, Symbol) for node in inside):
        raise Untranslatable
    text = "".join(node.text for node in inside if isinstance(node, Symbol))
    if not text or len(text) > 12:
        raise Untranslatable
    if mark in ("\u0305", "\u0332"):
        return Symbol("".join(letter + mark for letter in text))
    return Symbol(text + mark)


def _negated(inside: Row) -> Symbol:
    if len(inside) != 1 or not isinstance(inside[0], Symbol):
        raise Untranslatable
    text = inside[0].text
    return Symbol(math_symbols.NEGATED.get(text, text + "\u0338"), "relation")
