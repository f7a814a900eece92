"""Turns Markdown into the text that a voice reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

CODE = "A block of code."
"""Is read in place of code."""
_END = re.compile(r"[.!?:;,…]\W*\Z")


def spoken_text(markdown: str) -> str:
    """Return the words of each block, a paragraph each, without marks, addresses and code."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return "\n\n".join(_blocks(parser.parse(markdown)))


def _blocks(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("fence", "code_block"):
            yield CODE
        elif token.type == "inline":
            text = "".join(_words(token.children or [])).strip()
            if text:
                # A voice pauses at the end of a heading or an item only if it is a sentence.
                yield text if _END.search(text) else f"{text}."


def _words(children: list[Token]) -> Iterator[str]:
    for child in children:
        yield " " if child.type in ("softbreak", "hardbreak") else child.content
