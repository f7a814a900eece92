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

from ..lines.transcript_styles import TranscriptStyles

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


def _style(token_type: _TokenType, styles: TranscriptStyles) -> Style | None:
    if token_type in Generic:
        return _diff_style(token_type, styles)
    if token_type in Comment:
        return styles.syntax_comment
    if token_type in String or token_type in Literal.Date:
        return styles.syntax_string
    if token_type in Number:
        return styles.syntax_number
    if token_type in Keyword or token_type in Operator.Word:
        return styles.syntax_keyword
    if token_type in Name.Function or token_type in Name.Class or token_type in Name.Decorator:
        return styles.syntax_name
    return None


def _diff_style(token_type: _TokenType, styles: TranscriptStyles) -> Style | None:
    if token_type in Generic.Inserted:
        return styles.diff_added
    if token_type in Generic.Deleted:
        return styles.diff_removed
    if token_type in Generic.Heading or token_type in Generic.Subheading:
        return styles.syntax_keyword
    return None
