"""Transcript entry of a message from the program itself."""

from __future__ import annotations

from typing import ClassVar, Literal

from rich.text import Text

from ...text.terminal_safe_text import clean
from ..lines.line import BLANK, RenderedLine
from ..lines.line_wrapping import wrap
from .entry import INDENT, Entry, RenderOptions


class NoticeEntry(Entry):
    """A message from the program: what failed or is offered, and what to do next."""

    walkable: ClassVar[bool] = False

    def __init__(
        self, message: str, hint: str | None = None, kind: Literal["error", "notice"] = "notice"
    ) -> None:
        super().__init__()
        self.kind = kind
        self._message = clean(message)
        self._hint = clean(hint) if hint else None

    @property
    def text(self) -> str:
        return self._message if self._hint is None else f"{self._message}\n{self._hint}"

    def _render(self, options: RenderOptions) -> list[RenderedLine]:
        style = options.styles.error if self.kind == "error" else options.styles.notice
        lines = wrap(Text(self._message, style, end=""), options.width - 2)
        if self._hint:
            lines += wrap(Text(self._hint, options.styles.muted, end=""), options.width - 2)
        first, *others = lines
        mark = "✗ " if self.kind == "error" else "· "
        head = first.prefixed(mark, style)
        return [head, *(line.prefixed(INDENT) for line in others), BLANK]
