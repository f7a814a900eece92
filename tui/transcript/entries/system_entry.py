"""Transcript entry of the system prompt, as one line that unfolds."""

from __future__ import annotations

from rich.text import Text

from ...text import number_format
from ...text.terminal_safe_text import clean
from ..lines.block import EntryBlock
from ..lines.line import BLANK, RenderedLine
from ..lines.line_wrapping import wrap, wrap_plain
from .entry import INDENT, Entry, RenderOptions

KEY = "system"


class SystemEntry(Entry):
    """The system prompt; `tokens` is None if not counted."""

    def __init__(self, text: str, tokens: int | None = None) -> None:
        super().__init__()
        self._text = clean(text)
        self._tokens = tokens

    @property
    def text(self) -> str:
        return self._text

    def estimated_height(self, width: int) -> int:
        return 2

    def count(self, tokens: int | None) -> None:
        """Set the number of tokens."""
        if tokens != self._tokens:
            self._tokens = tokens
            self._changed()

    def _render(self, options: RenderOptions) -> list[RenderedLine]:
        folded = self.is_folded(KEY, True)
        block = EntryBlock("system", KEY, self._text, folded)
        size = (
            f"{number_format.tokens(len(self._text))} characters"
            if self._tokens is None
            else f"{number_format.tokens(self._tokens)} tok"
        )
        mark = "▸" if folded else "▾"
        words = Text(f"── system prompt · {size} {mark} ──", options.styles.seam, end="")
        words.truncate(options.width, overflow="ellipsis")
        lines = [wrap(words, options.width + 1)[0].within(block, handle="fold")]
        if not folded:
            body = wrap_plain(self._text, options.width - 2)
            lines += [line.prefixed(INDENT).within(block) for line in body]
        return [*lines, BLANK]
