"""Incremental rendering of growing Markdown: only its end is rendered again."""

from __future__ import annotations

from markdown_it.token import Token

from ..lines import BLANK, RenderedLine, TranscriptStyles
from ..math.math_delimiters import DISPLAY_OPENERS
from .markdown_parser import shared_parser
from .markdown_renderer import IsFolded, MarkdownRenderer, fold_all


class MarkdownStream:
    """Source text and its lines at one width; settled blocks are cached."""

    def __init__(
        self,
        styles: TranscriptStyles,
        width: int,
        indent: str = "",
        is_folded: IsFolded = fold_all,
    ) -> None:
        self._renderer = MarkdownRenderer(styles, width, is_folded)
        self._indent = indent
        self._tail = ""
        self._settled: list[RenderedLine] = []
        self._settled_source = ""
        self._first_line = 0
        self._known: dict[str, list[Token]] = {}
        self.lines: list[RenderedLine] = []
        """All lines as of the last `append` or `finish`; not to be modified."""

    def append(self, text: str) -> None:
        """Add clean text and render the unfinished end again."""
        self._tail += text
        if "\n" in text:
            self._settle()
        parsed = shared_parser().parse(self._tail, live=True, known=self._known)
        tail = self._renderer.render(parsed, live=True, first_line=self._first_line)
        self.lines = self._with_gap(tail)

    def finish(self) -> None:
        """Render the final end."""
        source = self._settled_source + self._tail
        if shared_parser().defines_references(source) or any(
            mark in source for mark in DISPLAY_OPENERS
        ):
            # A definition below defines links above it, and unclosed maths is text.
            self._settled, self._settled_source, self._tail = [], "", source
            self._first_line = 0
            self._known.clear()
            self._renderer.forget()
        blocks = shared_parser().parse(self._tail, known=self._known)
        self.lines = self._with_gap(self._renderer.render(blocks, first_line=self._first_line))

    def _settle(self) -> None:
        length = shared_parser().settled_length(self._tail)
        if not length:
            return
        blocks = shared_parser().parse(self._tail[:length], known=self._known)
        self._settled = self._with_gap(self._renderer.render(blocks, first_line=self._first_line))
        self._first_line += self._tail.count("\n", 0, length)
        self._settled_source += self._tail[:length]
        self._tail = self._tail[length:]
        # The next text begins another block.
        self._known.clear()
        self._renderer.forget()

    def _with_gap(self, more: list[RenderedLine]) -> list[RenderedLine]:
        gap = [BLANK] if self._settled and more else []
        shifted = [line.prefixed(self._indent) for line in more] if self._indent else more
        return [*self._settled, *gap, *shifted]


def render_markdown(
    source: str,
    styles: TranscriptStyles,
    width: int,
    indent: str = "",
    is_folded: IsFolded = fold_all,
) -> list[RenderedLine]:
    """Return the lines of a whole document."""
    lines = MarkdownRenderer(styles, width, is_folded).render(shared_parser().parse(source))
    return [line.prefixed(indent) for line in lines] if indent else lines
