"""Rendered lines of the transcript: blocks, styles, wrapping, marks, selected text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Literal

import msgspec
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text


class TranscriptStyles(msgspec.Struct, frozen=True):
    """One style per part; each field is the component class `transcript--<field>`."""

    you: Style
    model: Style
    muted: Style
    error: Style
    notice: Style
    caret: Style
    chip: Style
    thought: Style
    seam: Style
    cursor: Style
    cursor_mark: Style
    hit: Style
    hit_current: Style
    title: Style
    heading: Style
    strong: Style
    emphasis: Style
    struck: Style
    code: Style
    link: Style
    quote: Style
    rule: Style
    fence: Style
    fence_label: Style
    syntax_keyword: Style
    syntax_string: Style
    syntax_number: Style
    syntax_comment: Style
    syntax_name: Style
    diff_added: Style
    diff_removed: Style
    math: Style

    @classmethod
    def resolve(cls, get_style: Callable[[str], Style]) -> TranscriptStyles:
        """Resolve each style by its component class."""
        return cls(**{name: get_style(class_name) for name, class_name in component_classes()})


def component_classes() -> list[tuple[str, str]]:
    """Return field names with their component classes."""
    return [
        (name, f"transcript--{name.replace('_', '-')}")
        for name in TranscriptStyles.__struct_fields__
    ]


BlockKind = Literal["fence", "table", "thought", "tool", "attachment", "seam", "system"]


class EntryBlock(msgspec.Struct, frozen=True):
    """Kind and content of a part of an entry.

    `key` identifies it within its entry, also while the entry grows; `text` is the text to copy;
    `folded` is None if it cannot be folded.
    """

    kind: BlockKind
    key: str
    text: str
    folded: bool | None = None


Handle = Literal["fold", "copy"]


class RenderedLine(msgspec.Struct, frozen=True):
    """Segments, and whether the line continues the previous one after a soft wrap.

    `indent` cells at its start are layout rather than text, so copying omits them. `block` is the
    part of its entry that the line belongs to, None for the entry's own text; `handle` is the
    action of a click on the line.
    """

    segments: tuple[Segment, ...] = ()
    soft: bool = False
    indent: int = 0
    block: EntryBlock | None = None
    handle: Handle | None = None

    @property
    def text(self) -> str:
        """Return the characters on the line."""
        return "".join(segment.text for segment in self.segments)

    def prefixed(
        self, prefix: str, style: Style | None = None, *, layout: bool = True
    ) -> RenderedLine:
        """Return the line with `prefix`, which counts as layout by default."""
        indent = self.indent + len(prefix) if layout else 0
        segments = (Segment(prefix, style), *self.segments)
        return RenderedLine(segments, self.soft, indent, self.block, self.handle)

    def within(self, block: EntryBlock, *, handle: Handle | None = None) -> RenderedLine:
        """Return the line as part of `block`."""
        return RenderedLine(self.segments, self.soft, self.indent, block, handle)


BLANK = RenderedLine()


def joined(blocks: Iterable[list[RenderedLine]]) -> list[RenderedLine]:
    """Join blocks with one blank line between them."""
    lines: list[RenderedLine] = []
    for block in blocks:
        if not block:
            continue
        if lines:
            lines.append(BLANK)
        lines.extend(block)
    return lines


@lru_cache(1)
def _console() -> Console:
    # Only its measuring is used; nothing is ever printed through it.
    return Console(width=80, force_terminal=True, legacy_windows=False, _environ={})


def wrap(text: Text, width: int) -> list[RenderedLine]:
    """Wrap text to lines of at most `width` cells; longer words are cut."""
    console = _console()
    lines: list[RenderedLine] = []
    for paragraph in text.split("\n", allow_blank=True):
        if not paragraph.plain:
            lines.append(BLANK)
            continue
        if paragraph.style:
            # Rendering omits the style of a text without spans.
            paragraph.stylize_before(paragraph.style)
        wrapped = paragraph.wrap(console, max(1, width), overflow="fold", tab_size=4)
        for index, part in enumerate(wrapped):
            lines.append(RenderedLine(tuple(part.render(console)), soft=index > 0))
    return lines


def single_line(text: Text, width: int) -> RenderedLine:
    """Return one line of at most `width` cells, cut with an ellipsis."""
    text.truncate(width, overflow="ellipsis")
    return wrap(text, width + 1)[0]


def marked(segments: Iterable[Segment], span: tuple[int, int], style: Style) -> list[Segment]:
    """Return the segments with `style` over the characters in `span`; -1 means the end."""
    text = Text.assemble(*((part, own or "") for part, own, _ in segments), end="")
    text.stylize(style, span[0], None if span[1] == -1 else span[1])
    return list(text.render(_console()))


def selected_text(spans: Iterable[tuple[RenderedLine, tuple[int, int]]]) -> str:
    """Return the text in spans of characters, without layout and with soft-wrapped lines joined."""
    parts: list[str] = []
    for line, (first, last) in spans:
        start, end = max(line.indent, first), None if last == -1 else last
        text = line.text[start:end].rstrip()
        joint = " " if line.soft else "\n"
        parts.append(f"{joint}{text}" if parts else text)
    return "".join(parts)


def wrap_plain(plain: str, width: int) -> list[RenderedLine]:
    """Wrap plain text to lines of at most `width` cells."""
    return wrap(Text(plain, end=""), width)
