"""A tool call with its arguments and result."""

from __future__ import annotations

from rich.text import Text

from ...text import number_format
from ...text.terminal_safe_text import clean
from ..lines.block import EntryBlock
from ..lines.line import RenderedLine
from ..lines.line_wrapping import wrap, wrap_plain
from .entry import INDENT, RenderOptions

MAX_SHOWN = 200
"""Most lines shown of an unfolded result."""


class ToolCallBlock:
    """A tool call; `result` is None until it arrives."""

    def __init__(self, name: str, arguments: str = "", result: str | None = None) -> None:
        self.name = clean(name).replace("\n", " ")
        self.arguments = clean(arguments)
        self.result = None if result is None else clean(result)

    def set_result(self, result: str) -> None:
        """Set the result."""
        self.result = clean(result)

    def lines(self, options: RenderOptions, key: str, folded: bool) -> list[RenderedLine]:
        """Return one line, followed by arguments and result unless folded."""
        block = EntryBlock("tool", key, self.result or self.arguments, folded)
        head = Text(f"{'▸' if folded else '▾'} {self.name}", options.styles.code, end="")
        brief = " ".join(self.arguments.split())
        if folded and brief:
            head.append(f" {brief[: options.width]}", options.styles.muted)
        size = "" if self.result is None else number_format.tokens(len(self.result))
        state = f" · {size} characters" if size else " · running"
        head.truncate(max(4, options.width - 2 - len(state)), overflow="ellipsis")
        head.append(state, options.styles.muted)
        handle = wrap(head, options.width)[0].prefixed(INDENT).within(block, handle="fold")
        if folded:
            return [handle]
        parts = [part for part in (self.arguments, self.result) if part]
        rows = "\n\n".join(parts).expandtabs(4).split("\n")
        body = wrap_plain("\n".join(rows[:MAX_SHOWN]), options.width - 4)
        if len(rows) > MAX_SHOWN:
            more = f"… {number_format.tokens(len(rows) - MAX_SHOWN)} more lines"
            body += wrap(Text(more, options.styles.muted, end=""), options.width - 4)
        bar = options.styles.quote
        return [handle, *(line.prefixed(f"{INDENT}▏ ", bar).within(block) for line in body)]
