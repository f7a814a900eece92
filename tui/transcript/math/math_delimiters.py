"""Markdown plugin that finds maths: `$…$`, `$$…$$`, `\\(…\\)`, `\\[…\\]`, but not dollar
amounts.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

_CLOSERS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)", "$": "$"}
DISPLAY_OPENERS = ("$$", "\\[")
# Adjacent words are prose between two amounts, not maths.
_PROSE = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{2,}[,.;:]?\s+[A-Za-z]{2,}")
_COMMANDS = re.compile(r"\\[A-Za-z]+\*?(?:\s*\{[^{}]*\})?")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
# The beginning of unfinished maths: not an amount, not a word.
_BEGUN = re.compile(r"\\[A-Za-z]|[A-Za-z](?:[\s^_=+*/<>|(),{}'-]|\Z)|[-(|{]\s*[\\A-Za-z]")


def add_math(parser: MarkdownIt, *, live: bool = False) -> None:
    """Add maths to a parser; `live` text may end within it."""
    parser.block.ruler.before(
        "fence", "math_block", _math_block, {"alt": ["paragraph", "reference", "blockquote"]}
    )
    parser.inline.ruler.before("escape", "math_inline", _live_inline if live else _inline)


def is_prose(source: str) -> bool:
    """Return whether it contains words or Markdown that maths does not have."""
    bare = _COMMANDS.sub(lambda match: "\\" + "x" * (len(match[0]) - 1), source)
    amount = bare[:1].isdigit() and _WORD.search(bare)
    return bool("`" in source or "**" in source or amount or _PROSE.search(bare))


def is_math(source: str) -> bool:
    """Return whether the text between two dollar signs is maths."""
    return bool(source) and source == source.strip() and not is_prose(source)


def _math_block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Parse lines from `$$` or `\\[` to their closing, without a blank line between.

    Unclosed lines stay one block of text, so that no part of it settles too early.
    """
    if state.is_code_block(first):
        return False
    text = state.src[state.bMarks[first] + state.tShift[first] : state.eMarks[first]]
    opener = next((sign for sign in DISPLAY_OPENERS if text.startswith(sign)), None)
    if opener is None:
        return False
    closer = _CLOSERS[opener]
    inside: list[str] = []
    line, closed, rest = first, False, text[2:]
    while True:
        stripped = rest.rstrip()
        at = stripped.find(closer)
        if at >= 0 and at + 2 < len(stripped):
            return False  # text follows the formula: it belongs to a paragraph
        closed = at >= 0
        inside.append(stripped[:at] if closed else rest)
        line += 1
        if closed or line >= last or state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            break
        rest = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]
    if is_prose("\n".join(inside)):
        return False
    if silent:
        return True
    state.line = line
    token = state.push("math_block", "math", 0)
    token.content = "\n".join(inside).strip()
    token.markup = opener
    token.info = "closed" if closed else "open"
    token.map = [first, line]
    return True


def _opener(state: StateInline) -> str | None:
    text = state.src
    if text[state.pos] not in "$\\":
        return None
    return next((sign for sign in _CLOSERS if text.startswith(sign, state.pos)), None)


def _inline(state: StateInline, silent: bool) -> bool:
    opener = _opener(state)
    if opener is None:
        return False
    start = state.pos + len(opener)
    end = _closing(state, opener, start)
    if end is None:
        return False
    if not silent:
        token = state.push("math_inline", "math", 0)
        token.content = state.src[start:end].strip()
        token.markup = opener
    state.pos = end + len(opener)
    return True


def _live_inline(state: StateInline, silent: bool) -> bool:
    """Parse closed maths, and unfinished maths up to the end of the text."""
    if _inline(state, silent):
        return True
    opener = _opener(state)
    if opener is None:
        return False
    start = state.pos + len(opener)
    source = state.src[start : state.posMax]
    if opener == "$" and not (
        _may_open(state) and _BEGUN.match(source) and is_math(source.strip())
    ):
        return False
    if not silent:
        token = state.push("math_inline", "math", 0)
        token.content = source.strip()
        token.markup = opener
        token.info = "open"
    state.pos = state.posMax
    return True


def _closing(state: StateInline, opener: str, start: int) -> int | None:
    """Return where the closing sign is, None if this is not maths."""
    closer = _CLOSERS[opener]
    if opener == "$" and not _may_open(state):
        return None
    end = state.src.find(closer, start, state.posMax)
    while opener == "$" and end > 0 and state.src[end - 1] == "\\":
        end = state.src.find(closer, end + 1, state.posMax)
    if end < 0 or not state.src[start:end].strip():
        return None
    if opener != "$":
        return None if is_prose(state.src[start:end]) else end
    behind = state.src[end + 1 : end + 2]
    if behind.isalnum() or behind == "$" or not is_math(state.src[start:end]):
        return None
    return end


def _may_open(state: StateInline) -> bool:
    """Return whether a dollar sign can begin maths: not within a word, and not before a blank."""
    before = state.src[state.pos - 1 : state.pos]
    behind = state.src[state.pos + 1 : state.pos + 2]
    return not before.isalnum() and before != "$" and bool(behind) and not behind.isspace()
