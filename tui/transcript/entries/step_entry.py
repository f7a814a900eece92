"""Transcript entry of a tool call: one line; unfolded, its arguments and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from rich.style import Style
from rich.text import Text

from ...text import number_format
from ...text.terminal_safe_text import clean, clean_line
from ..lines import (
    BLANK,
    EntryBlock,
    RenderedLine,
    TranscriptStyles,
    single_line,
    wrap,
    wrap_plain,
)
from .entry import INDENT, Entry, RenderOptions

if TYPE_CHECKING:
    from ...chats.message import Message, ToolStep

KEY = "tool"
MAX_SHOWN = 200
"""Most lines shown of a result, and of the arguments."""
MAX_OUTPUT = 4000
"""Characters kept of the output of a running call."""


class StepEntry(Entry):
    """A call of a tool, running until `complete`."""

    def __init__(self, message: Message, *, running: bool = False) -> None:
        super().__init__(message.id)
        assert message.facts.step is not None
        self._step: ToolStep = message.facts.step
        self._text = message.content
        self._output = ""
        self._running = running

    @property
    def can_undo(self) -> bool:
        """Return whether it is an edit that can be taken back."""
        return self._step.undoable and not self._step.undone

    @property
    def text(self) -> str:
        return clean(self._text or self._output)

    def append(self, text: str) -> None:
        """Add output of the running call."""
        self._output = (self._output + text)[-MAX_OUTPUT:]
        self._changed()

    def complete(self, message: Message) -> None:
        """Show the result, or its change."""
        assert message.facts.step is not None
        self._step, self._text, self._running = message.facts.step, message.content, False
        self._changed()

    def _source(self) -> str:
        return ""

    def _render(self, options: RenderOptions) -> list[RenderedLine]:
        folded = self.is_folded(KEY, True)
        block = EntryBlock("tool", KEY, self.text, folded)
        head = self._head(options.styles, folded=folded)
        lines = [single_line(head, options.width - 2).prefixed(INDENT).within(block, handle="fold")]
        if not folded:
            bar, width = options.styles.quote, options.width - 4
            body = wrap_plain(_limited(_readable(self._step.call.arguments)), width)
            if self._step.diff:
                body += diff_lines(clean(self._step.diff), options.styles, width)
            body += wrap_plain(_limited(self.text), width)
            lines += [line.prefixed(f"{INDENT}▏ ", bar).within(block) for line in body]
        return [*lines, BLANK]

    def _head(self, styles: TranscriptStyles, *, folded: bool) -> Text:
        step = self._step
        mark, style = "✓", styles.syntax_string
        if self._running:
            mark, style = "…", styles.notice
        elif step.undone or step.declined:
            mark, style = "○", styles.muted
        elif step.failed:
            mark, style = "✗", styles.error
        facts = [clean_line(step.summary) or _short(step.call.arguments)]
        if self._running and self._output.strip():
            facts = [clean_line(self._output.strip().splitlines()[-1])]
        if step.undone:
            facts.append("undone")
        if step.seconds >= 0.1:
            facts.append(number_format.duration(step.seconds))
        head = Text.assemble(
            (f"{'▸' if folded else '▾'} ", styles.muted), (f"{mark} ", style), end=""
        )
        head.append(clean_line(step.call.name), styles.strong)
        head.append("  " + " · ".join(facts), styles.muted)
        return head


def diff_lines(diff: str, styles: TranscriptStyles, width: int) -> list[RenderedLine]:
    """Return the lines of a diff, added and removed ones in their colours."""
    lines: list[RenderedLine] = []
    for line in _limited(diff.rstrip("\n").expandtabs(4)).split("\n"):
        lines += wrap(Text(line, _diff_style(line, styles), end=""), width)
    return lines


def _diff_style(line: str, styles: TranscriptStyles) -> Style:
    if line.startswith(("+++", "---", "@@")):
        return styles.muted
    if line.startswith("+"):
        return styles.diff_added
    return styles.diff_removed if line.startswith("-") else Style.null()


def _readable(arguments: str) -> str:
    """Return arguments as lines of `name: value`; what is no JSON object as it is."""
    try:
        values = msgspec.json.decode(arguments, type=dict[str, object])
    except msgspec.DecodeError:
        return clean(arguments)
    return clean("\n".join(f"{name}: {_plain(value)}" for name, value in values.items()))


def _short(arguments: str) -> str:
    return clean_line(" ".join(_readable(arguments).split()))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _limited(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    if len(lines) <= MAX_SHOWN:
        return "\n".join(lines)
    more = number_format.counted(len(lines) - MAX_SHOWN, "more line")
    return "\n".join([*lines[:MAX_SHOWN], f"… {more}"])
