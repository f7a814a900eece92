"""`NoticeEntry`: a sentence from the chat itself."""

from __future__ import annotations

from typing import ClassVar, Literal

from rich.text import Text

from ...text.terminal_safe_text import clean
from ..lines.line import BLANK, RenderedLine
from ..lines.line_wrapping import wrap
from .entry import INDENT, Entry, RenderOptions


class NoticeEntry(Entry):
    """A sentence from the chat itself: what failed or what is offered, and what to do next."""

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

    def _render(self, look: RenderOptions) -> list[RenderedLine]:
        style = look.styles.error if self.kind == "error" else look.styles.notice
        lines = wrap(Text(self._message, style, end=""), look.width - 2)
        if self._hint:
            lines += wrap(Text(self._hint, look.styles.muted, end=""), look.width - 2)
        first, *others = lines
        mark = "✗ " if self.kind == "error" else "· "
        head = first.prefixed(mark, style)
        return [head, *(line.prefixed(INDENT) for line in others), BLANK]
