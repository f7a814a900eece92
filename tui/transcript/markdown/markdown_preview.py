"""`preview`: the words of a Markdown text on one line, for lists."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from ...text.terminal_safe_text import clean
from ..math.math_text import math_line
from .markdown_parser import MarkdownParser

LENGTH = 200
_MARKS = 2
"""How many times as much source is read: marks and addresses are left out."""


@lru_cache(1)
def _parser() -> MarkdownParser:
    return MarkdownParser()


def preview(source: str, length: int = LENGTH) -> str:
    """At most the first `length` characters of what a reader sees of `source`, in one line."""
    blocks = _parser().parse(clean(source[: _MARKS * length]), live=True)
    words = " ".join(part for block in blocks for part in _parts(block))
    return " ".join(words.split())[:length]


def _parts(node: SyntaxTreeNode) -> Iterator[str]:
    """The words of a block, and of those in it."""
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
