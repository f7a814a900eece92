"""Syntax highlighting in the theme's few colours."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    String,
    _TokenType,  # pyright: ignore[reportPrivateUsage]
)
from pygments.util import ClassNotFound
from rich.segment import Segment
from rich.style import Style

from ..lines import TranscriptStyles

MAX_HIGHLIGHTED = 64 * 1024
"""Longer blocks (in characters) stay plain: highlighting them would delay keys."""


@lru_cache(128)
def highlight(code: str, language: str, styles: TranscriptStyles) -> list[list[Segment]]:
    """Return the code's lines as coloured segments, not to be modified; plain in an unknown
    language.
    """
    lexer = _lexer(language) if len(code) <= MAX_HIGHLIGHTED else None
    if lexer is None:
        return [[Segment(line)] for line in code.split("\n")]
    lines: list[list[Segment]] = [[]]
    for token_type, value in lexer.get_tokens(code):
        style = _style(token_type, styles)
        first, *others = value.split("\n")
        lines[-1].append(Segment(first, style))
        lines.extend([Segment(part, style)] for part in others)
    if not any(segment.text for segment in lines[-1]):
        lines.pop()
    return lines


def prepare(languages: Iterable[str]) -> None:
    """Load the lexers of these languages, so that the first code block does not wait."""
    for language in languages:
        _lexer(language)


@lru_cache(64)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=True)
    except ClassNotFound:
        return None


_STYLE_NAMES: dict[_TokenType, str] = {
    Comment: "syntax_comment",
    String: "syntax_string",
    Literal.Date: "syntax_string",
    Number: "syntax_number",
    Keyword: "syntax_keyword",
    Operator.Word: "syntax_keyword",
    Name.Function: "syntax_name",
    Name.Class: "syntax_name",
    Name.Decorator: "syntax_name",
    Generic.Inserted: "diff_added",
    Generic.Deleted: "diff_removed",
    Generic.Heading: "syntax_keyword",
    Generic.Subheading: "syntax_keyword",
}
"""The field of `TranscriptStyles` for each type of token and its subtypes."""


def _style(token_type: _TokenType, styles: TranscriptStyles) -> Style | None:
    """Return the style of a token's type or of the nearest type above it, None for plain text."""
    for kind in reversed(token_type.split()):
        if kind in _STYLE_NAMES:
            return getattr(styles, _STYLE_NAMES[kind])
    return None
