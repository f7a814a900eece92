"""The reasoning of an answer, shown apart from it."""

from __future__ import annotations

import time

from rich.text import Text

from ...text import number_format
from ...text.terminal_safe_text import StreamCleaner, clean
from ..lines import EntryBlock, RenderedLine, single_line, wrap
from .entry import INDENT, RenderOptions

KEY = "thought"


class ReasoningBlock:
    """Reasoning that grows until the answer begins; one line when folded.

    With `text` it is complete; it is then cleaned when it is first shown. Of a growing one, only
    the last line is wrapped again.
    """

    def __init__(self, text: str = "", tokens: int = 0) -> None:
        self._text = text
        self._tokens = tokens
        self._seconds: float | None = None
        self._cleaner: StreamCleaner | None = None
        self._began: float | None = None
        self._options: RenderOptions | None = None
        self._pending = ""
        self._last_line = ""
        self._settled: list[RenderedLine] = []
        self._tail: list[RenderedLine] = []

    @property
    def text(self) -> str:
        """Return the reasoning so far."""
        if self._cleaner is None:
            self._text = clean(self._text)
        return self._text

    def append(self, text: str, tokens: int = 0) -> None:
        """Add reasoning."""
        if self._cleaner is None:
            self._text = clean(self._text)
            self._cleaner = StreamCleaner()
        if self._began is None:
            self._began = time.monotonic()
        self._add(self._cleaner.feed(text))
        self._tokens += tokens

    def close(self) -> None:
        """End the reasoning."""
        if self._cleaner is not None:
            self._add(self._cleaner.flush())
        if self._began is not None and self._seconds is None:
            self._seconds = time.monotonic() - self._began

    def lines(self, options: RenderOptions, folded: bool) -> list[RenderedLine]:
        """Return the summary line and, unless folded, the reasoning."""
        # Without the text: it grows, and finished lines stay as they are.
        block = EntryBlock("thought", KEY, "", folded)
        head = Text(f"{'▸' if folded else '▾'} {self._facts()}", options.styles.thought, end="")
        handle = single_line(head, options.width - 2).prefixed(INDENT).within(block, handle="fold")
        return [handle] if folded else [handle, *self._body(options, block)]

    def _add(self, text: str) -> None:
        self._text += text
        self._pending += text

    def _facts(self) -> str:
        count = f" · {number_format.counted(self._tokens, 'token')}" if self._tokens else ""
        if self._seconds is not None:
            return f"thought for {number_format.duration(self._seconds)}{count}"
        return f"thought{count}" if self._began is None else f"thinking{count}"

    def _body(self, options: RenderOptions, block: EntryBlock) -> list[RenderedLine]:
        def wrapped(text: str) -> list[RenderedLine]:
            lines = wrap(Text(text, options.styles.thought, end=""), options.width - 4)
            return [
                line.prefixed(f"{INDENT}▏ ", options.styles.thought).within(block) for line in lines
            ]

        if self._options is not options:
            self._options = options
            self._settled, self._tail, self._last_line = [], [], ""
            self._pending = self.text.lstrip("\n")
        if self._pending:
            whole, newline, self._last_line = (self._last_line + self._pending).rpartition("\n")
            if newline:
                self._settled += wrapped(whole)
            self._tail = wrapped(self._last_line) if self._last_line else []
            self._pending = ""
        return [*self._settled, *self._tail]
