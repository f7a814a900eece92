"""One-line plain-text previews of Markdown, for lists."""

from __future__ import annotations

from collections.abc import Iterator

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from ...text.terminal_safe_text import clean
from ..math.math_text import math_line
from .markdown_parser import shared_parser

LENGTH = 200
_MARKS = 2
"""Factor of source characters read, since marks and addresses are omitted."""


def preview(source: str, length: int = LENGTH) -> str:
    """Return at most the first `length` visible characters of `source` on one line."""
    blocks = shared_parser().parse(clean(source[: _MARKS * length]), live=True)
    words = " ".join(part for block in blocks for part in _parts(block))
    return " ".join(words.split())[:length]


def _parts(node: SyntaxTreeNode) -> Iterator[str]:
    """Yield the words of a block and its children."""
    if node.type == "inline":
        yield "".join(map(_words, node.meta.get("inline", [])))
    elif node.type in ("fence", "code_block", "math_block"):
        yield clean(node.content)
    else:
        for child in node.children:
            yield from _parts(child)


def _words(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return " "
    if token.type == "math_inline":
        return math_line(clean(token.content)) or clean(token.content)
    return clean(token.content)
