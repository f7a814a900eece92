"""Transcript entries that are no messages: notices, system prompt, compactions, outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from rich.cells import cell_len
from rich.text import Text

from ...text import number_format
from ...text.terminal_safe_text import clean, clean_line
from ..lines import BLANK, EntryBlock, RenderedLine, single_line, wrap, wrap_plain
from .entry import INDENT, Entry, RenderOptions

if TYPE_CHECKING:
    from ...chats.message import CompactionRecord


class NoticeEntry(Entry):
    """A notice or an error of the program, with a hint about the next step."""

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


SYSTEM_KEY = "system"


class SystemEntry(Entry):
    """The system prompt."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = clean(text)

    @property
    def text(self) -> str:
        return self._text

    def estimated_height(self, width: int) -> int:
        return 2

    def _render(self, options: RenderOptions) -> list[RenderedLine]:
        folded = self.is_folded(SYSTEM_KEY, True)
        block = EntryBlock("system", SYSTEM_KEY, self._text, folded)
        size = number_format.counted(len(self._text), "character")
        mark = "▸" if folded else "▾"
        words = Text(f"── system prompt · {size} {mark} ──", options.styles.seam, end="")
        lines = [single_line(words, options.width).within(block, handle="fold")]
        if not folded:
            body = wrap_plain(self._text, options.width - 2)
            lines += [line.prefixed(INDENT).within(block) for line in body]
        return [*lines, BLANK]


COMPACTION_KEYS = "▸ enter summary · u undo · o originals"


class CompactionEntry(Entry):
    """A compaction with its savings; `kept` describes the messages kept verbatim."""

    def __init__(self, compaction: CompactionRecord, kept: str = "") -> None:
        super().__init__(compaction.id)
        self.compaction = compaction
        self._kept = clean(kept)

    @property
    def text(self) -> str:
        return clean(self.compaction.summary) or compaction_facts(self.compaction)[0]

    def _source(self) -> str:
        return ""

    def _render(self, options: RenderOptions) -> list[RenderedLine]:
        block = EntryBlock("seam", "seam", self.text)
        facts = compaction_facts(self.compaction, self._kept)
        while len(facts) > 1 and cell_len(" · ".join(facts)) > options.width - 6:
            facts.pop()
        words = Text(f"┄┄ {' · '.join(facts)} ┄┄", options.styles.seam, end="")
        keys = Text(f"   {COMPACTION_KEYS}", options.styles.muted, end="")
        rows = (single_line(text, options.width) for text in (words, keys))
        return [*(line.within(block) for line in rows), BLANK]


def compaction_facts(made: CompactionRecord, kept: str = "") -> list[str]:
    """Return the facts about a compaction, the most important first."""
    turns = number_format.counted(made.turns, "turn")
    verb = "trimmed" if made.trims else "compacted"
    facts = [f"{verb} {turns}"]
    if made.tokens_before:
        change = made.tokens_after / made.tokens_before - 1
        sign = "−" if change < 0 else "+"
        before = number_format.tokens(made.tokens_before)
        after = number_format.tokens(made.tokens_after)
        facts.append(f"{before} → {after} tok ({sign}{number_format.percent(abs(change))})")
    if made.seconds:
        facts.append(number_format.duration(made.seconds))
    if kept:
        facts.append(f"kept: {kept}")
    if made.kv_pages:
        facts.append(f"{number_format.counted(made.kv_pages, 'cache page')} freed")
    return facts


OUTPUT_KEY = "output"
SHOWN_LINES = 12
"""Lines of a command's output that are shown while it is folded."""


class OutputEntry(Entry):
    """The end of what a typed command wrote; unfolded, all of it, as far as the prompt gets it."""

    def __init__(self, command: str, output: str) -> None:
        super().__init__()
        self._command = clean_line(command)
        self._text = clean(output).rstrip("\n")

    @property
    def text(self) -> str:
        return self._text

    def _render(self, options: RenderOptions) -> list[RenderedLine]:
        rows = wrap_plain(self._text, options.width - 4)
        folded = self.is_folded(OUTPUT_KEY, True)
        block = EntryBlock("tool", OUTPUT_KEY, self._text, folded)
        hidden = max(0, len(rows) - SHOWN_LINES) if folded else 0
        head = Text.assemble(("$ ", options.styles.muted), (self._command, options.styles.strong))
        if hidden:
            above = number_format.counted(hidden, "line")
            head.append(f"  ▸ {above} above", options.styles.muted)
        shown = [line.prefixed("▏ ", options.styles.quote) for line in rows[hidden:]]
        lines = [single_line(head, options.width - 2), *shown]
        return [*(line.prefixed(INDENT).within(block, handle="fold") for line in lines), BLANK]
