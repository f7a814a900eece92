"""Markdown parser that also completes unfinished Markdown.

While an answer streams in, its end is nearly always unfinished: `**bol`, a table with half a
header, two of three backticks. `parse(..., live=True)` closes open constructs and holds back
characters that may turn out to be markers, so that they never flash on the screen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_inline.state_inline import StateInline
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from ..math.math_delimiters import add_math

MAX_NESTING = 40
"""Nesting limit of lists and quotes; deeper text is shown as plain text."""

PIECE = 1000
"""Characters of a growing paragraph that are parsed once, if all constructs opened in them are
closed.
"""
_MAYBE_OPEN = re.compile(r"[*_~`\[\]<&$\\]")
# The characters a line may consist of before its content: list, quote, heading, fence and table
# markers, heading underlines, delimiter rows, task boxes.
_ONLY_MARKERS = re.compile(
    r"(?:[\s>\-+*_=~`#|:$]|\d{1,3}(?:[.)](?=\s|\Z)|\Z))*(?:\[(?:[ xX]\]?\s*)?)?\Z"
)
_HELD_CHARACTERS = " \t\n*_~`![<\\$"
_LIST_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]")
_OUTSIDE_LIST = re.compile(r"(?!(?:[-*+]|\d{1,9}[.)])[ \t])\S")
_HELD_ENTITY = re.compile(r"&#?\w{0,12}\Z")
_TABLE_HEADER = re.compile(r"[ >]*\|")


class MarkdownParser:
    """CommonMark with tables and strikethrough, no raw HTML."""

    def __init__(self) -> None:
        self._blocks = _markdown_it()
        self._blocks.core.ruler.disable("inline")
        self._inline = _markdown_it()
        self._live_inline = _markdown_it()
        add_math(self._blocks)
        add_math(self._inline)
        add_math(self._live_inline, live=True)
        ruler = self._live_inline.inline.ruler
        ruler.before("backticks", "open_code", _open_code)
        ruler.after("image", "open_link", _open_link)
        ruler.after("open_link", "open_autolink", _open_autolink)
        self._live_inline.inline.ruler2.before("strikethrough", "open_emphasis", _close_open)

    def parse(
        self, source: str, *, live: bool = False, known: dict[str, list[Token]] | None = None
    ) -> list[SyntaxTreeNode]:
        """Return the top-level blocks; the tokens of inline nodes are a flat list in
        `meta["inline"]`.

        `live` means that the text may continue. `known` caches parsed pieces, so that a growing
        block is not parsed from its beginning each time.
        """
        text = _hold_back_line(source, self._blocks) if live else source
        env: dict[str, object] = {}
        tokens = self._blocks.parse(text, env)
        last = _open_inline(tokens, text) if live else None
        if any(token.level >= MAX_NESTING - 1 for token in tokens):
            return SyntaxTreeNode(_as_plain(source)).children
        if "references" in env:
            known = None
        for token in tokens:
            if token.type == "inline":
                self._parse_inline(token, env, known, live=token is last)
        if live:
            _hold_back_fence(tokens)
        return SyntaxTreeNode(tokens).children

    def defines_references(self, source: str) -> bool:
        """Return whether links in one block can depend on another block."""
        env: dict[str, object] = {}
        self._blocks.parse(source, env)
        return bool(env.get("references"))

    def settled_length(self, source: str) -> int:
        """Return the length of the leading blocks that no further text can change."""
        whole_lines = source[: source.rfind("\n") + 1]
        if not _may_have_two_blocks(whole_lines):
            return 0
        tokens = self._blocks.parse(whole_lines)
        starts = [token.map[0] for token in tokens if token.level == 0 and token.map]
        if len(starts) < 2:
            return 0
        lines = whole_lines.splitlines(keepends=True)
        return sum(len(line) for line in lines[: starts[-1]])

    def _parse_inline(
        self,
        token: Token,
        env: dict[str, object],
        known: dict[str, list[Token]] | None,
        *,
        live: bool,
    ) -> None:
        content = token.content
        children: list[Token] = []
        if live:
            content = _hold_back(content)
            while known is not None and len(content) > 2 * PIECE:
                piece = self._settled_piece(content, env, known)
                if piece is None:
                    break
                children += known[piece]
                content = content[len(piece) :]
            # Into a list of its own: the parser joins adjacent tokens of a list.
            rest: list[Token] = []
            self._live_inline.inline.parse(content, self._live_inline, env, rest)
            children += rest
        else:
            children = self._known_inline(content, env, {} if known is None else known)
        # Not as children: their tree could be thousands deep, and is built by recursion.
        token.children = []
        token.meta["inline"] = children

    def _known_inline(
        self, content: str, env: dict[str, object], known: dict[str, list[Token]]
    ) -> list[Token]:
        tokens = known.get(content)
        if tokens is None:
            tokens = known[content] = []
            self._inline.inline.parse(content, self._inline, env, tokens)
        return tokens

    def _settled_piece(
        self, content: str, env: dict[str, object], known: dict[str, list[Token]]
    ) -> str | None:
        """Return the start of a long paragraph, up to a space, if nothing in it is open."""
        end = PIECE
        while (end := content.find(" ", end)) >= 0 and end < len(content) - PIECE:
            tokens = self._known_inline(content[:end], env, known)
            if not any(
                token.type == "text" and _MAYBE_OPEN.search(token.content) for token in tokens
            ):
                return content[:end]
            end += PIECE // 2
        return None


@lru_cache(1)
def shared_parser() -> MarkdownParser:
    """Return the parser, which is slow to create."""
    return MarkdownParser()


def _markdown_it() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING}).enable(
        ["table", "strikethrough"]
    )


def _may_have_two_blocks(source: str) -> bool:
    """Return False if all lines obviously belong to one list or table."""
    first, *others = source.split("\n", 1)
    if _LIST_ITEM.match(first):
        return any(_OUTSIDE_LIST.match(line) for line in (others[0] if others else "").split("\n"))
    if first.startswith("|"):
        return any(not line.startswith("|") for line in source.rstrip("\n").split("\n"))
    return True


def _as_plain(source: str) -> list[Token]:
    """Return the source as one paragraph without markup: the parser drops nesting beyond
    its limit.
    """
    text = Token("text", "", 0, content=source)
    inline = Token("inline", "", 0, children=[], meta={"inline": [text]})
    return [Token("paragraph_open", "p", 1), inline, Token("paragraph_close", "p", -1)]


def _hold_back(text: str) -> str:
    """Return `text` without trailing characters that may be half of a marker."""
    text = text.rstrip(_HELD_CHARACTERS)
    entity = _HELD_ENTITY.search(text, max(0, len(text) - 14))
    return text if entity is None else text[: entity.start()].rstrip(_HELD_CHARACTERS)


def _hold_back_line(source: str, blocks: MarkdownIt) -> str:
    """Drop a last line that consists of markers so far, and complete the header of a table."""
    head, newline, last = source.rpartition("\n")
    # Only these can be code, which most text does not contain.
    maybe_code = "```" in source or "~~~" in source or last.startswith(("    ", "\t", " \t"))
    leaf = _last_leaf(blocks.parse(source)) if maybe_code or "\t" in last else None
    if leaf is not None and leaf.type in ("fence", "code_block"):
        return _drop_fence_opening(source, leaf)
    if not last or _ONLY_MARKERS.match(last):
        source, newline, last = head, "", head.rpartition("\n")[2]
    if not _TABLE_HEADER.match(last) or _ends_in_table(blocks, source):
        return source + newline
    columns = len(_cells(last))
    prefix = last[: last.index("|")]
    row = last if last.rstrip().endswith("|") else f"{_hold_back(last)} |"
    return f"{source[: len(source) - len(last)]}{row}\n{prefix}{'|---' * columns}|"


def _drop_fence_opening(source: str, token: Token) -> str:
    """Hold back an opening line that may still become `code span` text or a longer fence."""
    is_opening = token.map is not None and token.map[1] - token.map[0] == 1
    if token.type == "fence" and is_opening and not token.info.strip():
        return source.rpartition("\n")[0]
    return source


def _last_leaf(tokens: list[Token]) -> Token | None:
    return next((token for token in reversed(tokens) if token.nesting >= 0), None)


def _cells(row: str) -> Sequence[str]:
    cells = escapedSplit(row.strip())
    if cells and not cells[0]:
        cells.pop(0)
    if cells and not cells[-1].strip():
        cells.pop()
    return cells or [""]


def _ends_in_table(blocks: MarkdownIt, source: str) -> bool:
    tokens = blocks.parse(source)
    return any(token.type == "table_close" for token in tokens[-3:])


def _open_inline(tokens: list[Token], text: str) -> Token | None:
    """Return the inline token that text appended to `text` would belong to."""
    if not tokens or text.endswith(("\n\n", "\n \n")):
        return None
    # Missing cells of a row exist, but empty.
    inlines = (token for token in reversed(tokens) if token.type == "inline" and token.content)
    return next(inlines, None)


def _hold_back_fence(tokens: list[Token]) -> None:
    """Drop a last line that may become the closing fence."""
    fence = _last_leaf(tokens)
    if fence is None or fence.type != "fence" or is_closed(fence):
        return
    head, newline, last = fence.content.removesuffix("\n").rpartition("\n")
    mark = last.strip()
    if mark and mark == fence.markup[0] * len(mark):
        fence.content = head + newline


def is_closed(fence: Token) -> bool:
    """Return whether the fence's closing line is present."""
    assert fence.map is not None
    lines = fence.content.removesuffix("\n").count("\n") + 1 if fence.content else 0
    return lines <= fence.map[1] - fence.map[0] - 2


def _open_code(state: StateInline, silent: bool) -> bool:
    """Parse a code span without an end, up to the end of the text."""
    if state.src[state.pos] != "`":
        return False
    start = state.pos
    while start < state.posMax and state.src[start] == "`":
        start += 1
    marker = state.src[state.pos : start]
    if re.search(rf"(?<!`){marker}(?!`)", state.src[start : state.posMax]):
        return False
    if not silent:
        token = state.push("code_inline", "code", 0)
        token.content = state.src[start : state.posMax].strip()
    state.pos = state.posMax
    return True


def _open_link(state: StateInline, silent: bool) -> bool:
    """Parse an incomplete link or image as its label only."""
    start = state.pos + 1 if state.src.startswith("![", state.pos) else state.pos
    if start >= state.posMax or state.src[start] != "[":
        return False
    end = state.md.helpers.parseLinkLabel(state, start, False)
    if end < 0:
        state.pos = start + 1
        return True
    rest = state.src[end + 1 : state.posMax]
    if rest and not (rest.startswith("(") and rest.count("(") > rest.count(")")):
        return False
    if not silent:
        maximum, state.posMax, state.pos = state.posMax, end, start + 1
        state.md.inline.tokenize(state)
        state.posMax = maximum
    state.pos = state.posMax
    return True


def _open_autolink(state: StateInline, silent: bool) -> bool:
    """Parse an incomplete autolink as its address without the bracket."""
    rest = state.src[state.pos : state.posMax]
    if not re.match(r"<[a-zA-Z][^\s<>]*\Z", rest):
        return False
    if not silent:
        state.push("text", "", 0).content = rest[1:]
    state.pos = state.posMax
    return True


def _close_open(state: StateInline) -> None:
    """Match every unclosed opening marker with a closing marker at the end."""
    for opener in reversed(list(state.delimiters)):
        if not opener.open or opener.end >= 0:
            continue
        opener.end = len(state.delimiters)
        token = state.push("text", "", 0)
        token.content = state.tokens[opener.token].content
        place = len(state.tokens) - 1
        state.delimiters.append(replace(opener, token=place, end=-1, open=False, close=True))
