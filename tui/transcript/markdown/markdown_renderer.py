"""Renders parsed Markdown to lines of a given width."""

from __future__ import annotations

import re
from collections.abc import Callable

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ...text import number_format
from ...text.terminal_safe_text import clean
from ..lines import BLANK, EntryBlock, RenderedLine, TranscriptStyles, joined, wrap
from ..math.math_symbols import RAISED
from ..math.math_text import math_line, math_lines, partial_math
from .markdown_parser import is_closed
from .table_renderer import render_table

BULLETS = "•◦▪"
_NOTE = re.compile(r"\[\^(\w{1,12})\](:\s)?")
_TASK = re.compile(r"\[([ xX])\](?:\s+|\Z)")
MIN_WIDTH = 8
"""If less width is left for text, deeper nesting is not indented."""


MAX_LINES = 40
"""Lines above which code can be folded."""
SHOWN_LINES = 20
"""Lines that folded code still shows."""

IsFolded = Callable[[str], bool]
"""Returns whether the long code with this block key is folded."""


def fold_all(_key: str) -> bool:
    """Return that any long code is folded."""
    return True


class MarkdownRenderer:
    """Renders blocks at one width in one set of styles."""

    def __init__(
        self, styles: TranscriptStyles, width: int, is_folded: IsFolded = fold_all
    ) -> None:
        self._styles = styles
        self._width = max(8, width)
        self._is_folded = is_folded
        self._first_line = 0
        # Cached renderings of a growing block, by its source.
        self._texts: dict[int, tuple[list[Token], Text]] = {}
        self._wraps: dict[tuple[int, int], tuple[Text, list[RenderedLine]]] = {}
        self._code_rows: tuple[str, int, list[list[RenderedLine]]] = ("", 0, [])

    def forget(self) -> None:
        """Free the cache of a block that no longer grows."""
        self._texts.clear()
        self._wraps.clear()
        self._code_rows = ("", 0, [])

    def render(
        self, blocks: list[SyntaxTreeNode], *, live: bool = False, first_line: int = 0
    ) -> list[RenderedLine]:
        """Return the blocks' lines; `live` leaves growing code without colours.

        `first_line` is the line of the whole text at which the blocks begin.
        """
        self._first_line = first_line
        return joined(self._block(block, self._width, 0, live) for block in blocks)

    def _block(
        self, node: SyntaxTreeNode, width: int, depth: int, live: bool
    ) -> list[RenderedLine]:
        match node.type:
            case "heading":
                return self._heading(node, width)
            case "bullet_list" | "ordered_list":
                return self._list(node, width, depth, live)
            case "blockquote":
                return self._quote(node, width, depth, live)
            case "fence" | "code_block":
                return self._code(node, width, live)
            case "table":
                return self._table(node, width)
            case "math_block":
                return self._math(node, width, live)
            case "hr":
                return [RenderedLine((Segment("─" * width, self._styles.rule),))]
            case _:
                return self._wrapped(self._inline(node), width)

    def _table(self, node: SyntaxTreeNode, width: int) -> list[RenderedLine]:
        cells = [
            [self._inline(cell).plain.replace("\n", " ") for cell in row.children]
            for section in node.children
            for row in section.children
        ]
        text = "\n".join("\t".join(row) for row in cells)
        line = self._first_line + (node.map[0] if node.map else 0)
        block = EntryBlock("table", f"table:{line}", text)
        rows = render_table(node, width, self._styles, self._inline, self._wrapped)
        return [row.within(block) for row in rows]

    def _math(self, node: SyntaxTreeNode, width: int, live: bool) -> list[RenderedLine]:
        """Return a display formula, or its source if it cannot be rendered."""
        source = clean(node.content)
        if node.info == "open" and not live:
            return wrap(Text(f"{node.markup}{source}", end=""), width)
        if node.info == "open":
            source = partial_math(source)
        if not source:
            return []
        laid_out = math_lines(source, width - 2)
        if laid_out is None:
            return wrap(Text(source, self._styles.code, end=""), width)
        if all(cell_len(row) <= width - 2 for row in laid_out):
            return [
                RenderedLine((Segment(row, self._styles.math),)).prefixed("  ") for row in laid_out
            ]
        return wrap(Text("\n".join(laid_out), self._styles.math, end=""), width)

    def _heading(self, node: SyntaxTreeNode, width: int) -> list[RenderedLine]:
        text = self._inline(node).copy()
        styles = {"h1": self._styles.title, "h2": self._styles.heading}
        text.stylize(styles.get(node.tag, self._styles.strong))
        return wrap(text, width)

    def _list(self, node: SyntaxTreeNode, width: int, depth: int, live: bool) -> list[RenderedLine]:
        start = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        last_number = "" if start is None else f"{start + len(node.children) - 1}. "
        indent = len(last_number) or 2
        items: list[list[RenderedLine]] = []
        for index, item in enumerate(node.children):
            bullet = f"{_checked(item) or BULLETS[min(depth, 2)]} "
            marker = bullet if start is None else f"{start + index}. ".rjust(indent)
            items.append(self._item(item, marker, width, depth, live))
        if _is_loose(node):
            return joined(items)
        return [line for item in items for line in item]

    def _item(
        self, item: SyntaxTreeNode, marker: str, width: int, depth: int, live: bool
    ) -> list[RenderedLine]:
        blank = " " * len(marker)
        room = width - len(marker)
        if room < MIN_WIDTH:
            blank, room = "", width
        blocks = [self._block(child, room, depth + 1, live) for child in item.children]
        tight = not _is_loose(item)
        lines = [line for block in blocks for line in block] if tight else joined(blocks)
        first, *others = lines or [BLANK]
        if not blank:
            return [RenderedLine((Segment(marker, self._styles.muted),)), first, *others]
        head = first.prefixed(marker, self._styles.muted, layout=False)
        return [head, *(line.prefixed(blank) for line in others)]

    def _quote(
        self, node: SyntaxTreeNode, width: int, depth: int, live: bool
    ) -> list[RenderedLine]:
        bar = "▎ " if width - 2 >= MIN_WIDTH else ""
        room = width - len(bar)
        lines = joined(self._block(child, room, depth, live) for child in node.children)
        return [line.prefixed(bar, self._styles.quote) for line in lines] if bar else lines

    def _code(self, node: SyntaxTreeNode, width: int, live: bool) -> list[RenderedLine]:
        """Return a block on a tinted background with its language above; long lines are wrapped."""
        code = clean(node.content).expandtabs(4).removesuffix("\n")
        language = clean(node.info).split()[0] if node.info.strip() else ""
        finished = node.type == "code_block" or not live or is_closed(node.to_tokens()[0])
        key = f"fence:{self._first_line + (node.map[0] if node.map else 0)}"
        if not finished:
            return self._growing_code(code, language, key, width)
        if language:
            # Imported when the first block closes, since the lexers are slow to import.
            from .code_highlighter import highlight

            rows = highlight(code, language, self._styles)
        else:
            rows = [[Segment(line)] for line in code.split("\n")]
        folded = self._is_folded(key) if len(rows) > MAX_LINES else None
        block = EntryBlock("fence", key, clean(node.content).removesuffix("\n"), folded)
        lines: list[RenderedLine] = []
        if language:
            lines.append(self._label(language, width, block))
        for row in rows[:SHOWN_LINES] if folded else rows:
            lines += self._row(row, width, block)
        if folded is not None:
            hidden = len(rows) - SHOWN_LINES
            words = f"▸ {number_format.counted(hidden, 'more line')}" if folded else "▾ fold"
            more = Segment(f" {words}".ljust(width)[:width], self._styles.fence_label)
            lines.append(RenderedLine((more,), indent=width, block=block, handle="fold"))
        return lines

    def _label(self, language: str, width: int, block: EntryBlock) -> RenderedLine:
        """Return the line above code: its language, and how to copy it."""
        left, right = f" {language}", "copy y "
        space = width - cell_len(left) - len(right)
        text = left + " " * space + right if space > 0 else left.ljust(width)[:width]
        segment = Segment(text, self._styles.fence_label)
        return RenderedLine((segment,), indent=width, block=block, handle="copy")

    def _row(self, row: list[Segment], width: int, block: EntryBlock) -> list[RenderedLine]:
        """Return a row of code on its background, over several lines if it is long."""
        ground = self._styles.fence
        padded = (
            Segment.adjust_line_length([Segment(" "), *part], width, ground)
            for part in _fold(row, width - 2)
        )
        return [
            RenderedLine(tuple(Segment.apply_style(line, ground)), indent=1, block=block)
            for line in padded
        ]

    def _growing_code(self, code: str, language: str, key: str, width: int) -> list[RenderedLine]:
        """Return unfinished code: plain, with only its last row rendered again.

        The block has no text, since it grows; see `AnswerEntry.block_text`.
        """
        block = EntryBlock("fence", key, "")
        before, before_width, lines = self._code_rows
        rows = code.split("\n")
        if before_width != width or not code.startswith(before):
            lines = []
        kept = lines[: max(0, before.count("\n"))] if before else []
        kept += [self._row([Segment(row)], width, block) for row in rows[len(kept) :]]
        self._code_rows = (code, width, kept)
        head = [self._label(language, width, block)] if language else []
        return [*head, *(line for row in kept for line in row)]

    def _wrapped(self, text: Text, width: int) -> list[RenderedLine]:
        kept = self._wraps.get((id(text), width))
        if kept is None or kept[0] is not text:
            kept = self._wraps[id(text), width] = (text, wrap(text, width))
        return kept[1]

    def _inline(self, node: SyntaxTreeNode) -> Text:
        """Return the styled text of a leaf block, not to be modified."""
        # A leaf block has one inline node, an empty one none.
        tokens: list[Token] = node.children[0].meta.get("inline", []) if node.children else []
        kept = self._texts.get(id(tokens))
        if kept is not None and kept[0] is tokens:
            return kept[1]
        text = Text(end="")
        self._append_inline(text, tokens)
        self._texts[id(tokens)] = (tokens, text)
        return text

    def _append_inline(self, text: Text, tokens: list[Token]) -> None:
        styles = self._styles
        opened = {"strong_open": styles.strong, "em_open": styles.emphasis, "s_open": styles.struck}
        stack = [Style.null()]
        links: list[tuple[int, str]] = []
        for token in tokens:
            if token.nesting < 0:
                stack.pop()
                if token.type == "link_close":
                    self._append_address(text, *links.pop(), stack[-1])
            elif token.type == "link_open":
                links.append((len(text), _address(token, "href")))
                stack.append(stack[-1] + self._link(links[-1][1]))
            elif token.nesting > 0:
                stack.append(stack[-1] + opened[token.type])
            else:
                self._append_leaf(text, token, stack[-1])

    def _link(self, address: str) -> Style:
        """Return the style of a link, with its target as a terminal hyperlink if that is safe."""
        safe = safe_link(address)
        return self._styles.link + Style(link=safe) if safe else self._styles.link

    def _append_leaf(self, text: Text, token: Token, style: Style) -> None:
        match token.type:
            case "softbreak":
                text.append(" ", style)
            case "hardbreak":
                text.append("\n")
            case "code_inline":
                text.append(clean(token.content), style + self._styles.code)
            case "math_inline":
                source = clean(token.content)
                shown = math_line(partial_math(source) if token.info == "open" else source)
                if shown is None:
                    code = "" if token.info == "open" else source
                    text.append(code, style + self._styles.code)
                else:
                    text.append(shown, style + self._styles.math)
            case "image":
                words = "".join(child.content for child in token.children or ())
                label = clean(words or token.content) or "image"
                address = _address(token, "src")
                text.append(f"▧ {label}", style + self._link(address))
                if address:
                    text.append(f" ({address})", style + self._styles.muted)
            case _:
                text.append(_NOTE.sub(_raised, clean(token.content)), style)

    def _append_address(self, text: Text, start: int, address: str, style: Style) -> None:
        """Append a link's target unless the label shows it, so that no target is hidden."""
        label = text.plain[start:]
        if address and address not in (label, f"mailto:{label}", f"http://{label}"):
            text.append(f" ({address})", style + self._styles.muted)


def _raised(note: re.Match[str]) -> str:
    """Return the mark of a footnote."""
    name, behind = note[1], " " if note[2] else ""
    if not name.isdecimal():
        return f"[{name}]{behind}"
    return "".join(RAISED.get(digit, digit) for digit in name) + behind


def _checked(item: SyntaxTreeNode) -> str | None:
    """Remove the check box from an item of a task list, and return it."""
    first = item.children[0] if item.children else None
    if first is None or first.type != "paragraph" or not first.children:
        return None
    tokens: list[Token] = first.children[0].meta.get("inline", [])
    head = tokens[0] if tokens and tokens[0].type == "text" else None
    match = None if head is None else _TASK.match(head.content)
    if head is None or match is None:
        return None
    # The tokens may be cached and rendered again, so they are not modified.
    rest = head.copy(content=head.content[match.end() :])
    first.children[0].meta["inline"] = [rest, *tokens[1:]]
    return "☑" if match[1] in "xX" else "☐"


def _address(token: Token, name: str) -> str:
    return clean(str(token.attrs.get(name, "")))


def _is_loose(node: SyntaxTreeNode) -> bool:
    """Return whether blank lines separate the parts of a list or item."""
    items = node.children if node.type != "list_item" else [node]
    return any(
        child.type == "paragraph" and not child.hidden for item in items for child in item.children
    )


def _fold(row: list[Segment], width: int) -> list[list[Segment]]:
    """Split a row of code after every `width` cells."""
    width = max(4, width)
    parts: list[list[Segment]] = [[]]
    room = width
    for text, style, _ in row:
        rest = text
        while rest:
            if cell_len(rest) <= room:
                parts[-1].append(Segment(rest, style))
                room -= cell_len(rest)
                break
            piece = chop_cells(rest, room)[0] if room > 1 else ""
            parts[-1].append(Segment(piece, style))
            rest = rest[len(piece) :]
            parts.append([])
            room = width
    return parts


MAX_LINK = 2048
# Other characters could be confused with the escape sequence around the address.
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[\x21-\x7e]+", re.IGNORECASE)


def safe_link(address: str) -> str | None:
    """Return a web or mail address of visible ASCII characters, None for any other."""
    if len(address) > MAX_LINK or not _SAFE_LINK.fullmatch(address):
        return None
    return address
