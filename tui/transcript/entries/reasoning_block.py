"""The reasoning of an answer, shown apart from it."""

from __future__ import annotations

import time

from rich.text import Text

from ...text import number_format
from ...text.terminal_safe_text import StreamCleaner, clean
from ..lines.block import EntryBlock
from ..lines.line import RenderedLine
from ..lines.line_wrapping import wrap
from .entry import INDENT, RenderOptions
from .plain_text_stream import PlainStream

KEY = "thought"


class ReasoningBlock:
    """Reasoning that grows until the answer begins; one line when folded."""

    def __init__(self) -> None:
        self._text = ""
        self._cleaner: StreamCleaner | None = None
        self._tokens = 0
        self._seconds: float | None = None
        self._began: float | None = None
        self._stream: PlainStream | None = None
        self._stream_options: RenderOptions | None = None
        self._pending = ""

    @classmethod
    def complete(cls, text: str, tokens: int = 0, seconds: float | None = None) -> ReasoningBlock:
        """Return complete reasoning; it is cleaned when it is first shown."""
        block = cls()
        block._text = text
        block._tokens = tokens
        block._seconds = seconds
        return block

    @property
    def text(self) -> str:
        """Return the reasoning so far."""
        if self._cleaner is None:
            self._text = clean(self._text)
        return self._text

    @property
    def is_open(self) -> bool:
        """Return whether more may come."""
        return self._began is not None and self._seconds is None

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
        if self.is_open and self._began is not None:
            self._seconds = time.monotonic() - self._began

    def lines(self, options: RenderOptions, folded: bool) -> list[RenderedLine]:
        """Return the summary line and, unless folded, the reasoning."""
        # Without the text: it grows, and finished lines stay as they are.
        block = EntryBlock("thought", KEY, "", folded)
        head = Text(f"{'▸' if folded else '▾'} {self._facts()}", options.styles.thought, end="")
        head.truncate(options.width - 2, overflow="ellipsis")
        lines = wrap(head, options.width)[:1]
        handle = lines[0].prefixed(INDENT).within(block, handle="fold")
        if folded:
            return [handle]
        return [handle, *self._body(options, block)]

    def _add(self, text: str) -> None:
        self._text += text
        self._pending += text

    def _facts(self) -> str:
        count = f" · {number_format.tokens(self._tokens)} tokens" if self._tokens else ""
        if self.is_open:
            return f"thinking{count}"
        if self._seconds is None:
            return f"thought{count}"
        return f"thought for {number_format.duration(self._seconds)}{count}"

    def _body(self, options: RenderOptions, block: EntryBlock) -> list[RenderedLine]:
        if self._stream is None or self._stream_options is not options:
            style = options.styles.thought
            self._stream = PlainStream(options.width - 4, style, f"{INDENT}▏ ", block)
            self._stream_options = options
            self._pending = self.text.lstrip("\n")
        pending, self._pending = self._pending, ""
        if pending:
            self._stream.append(pending)
        return self._stream.lines
