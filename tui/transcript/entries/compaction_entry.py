"""Transcript entry of a compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from ...text import number_format
from ...text.terminal_safe_text import clean
from ..lines.block import EntryBlock
from ..lines.line import BLANK, RenderedLine
from ..lines.line_wrapping import wrap
from .entry import Entry, RenderOptions

if TYPE_CHECKING:
    from ...chats.compaction_record import CompactionRecord

KEYS = "▸ enter summary · u undo · o originals"


class CompactionEntry(Entry):
    """A compaction with what it saved; `kept` describes the messages kept verbatim."""

    def __init__(
        self, compaction: CompactionRecord, kept: str = "", *, undone: bool = False
    ) -> None:
        super().__init__(compaction.id)
        self.compaction = compaction
        self._kept = clean(kept)
        self._undone = undone

    @property
    def text(self) -> str:
        return clean(self.compaction.summary) or self._facts()[0]

    def _source(self) -> str:
        return ""

    def _facts(self) -> list[str]:
        return compaction_facts(self.compaction, self._kept, undone=self._undone)

    def _render(self, options: RenderOptions) -> list[RenderedLine]:
        block = EntryBlock("seam", "seam", self.text)
        facts = self._facts()
        while len(facts) > 1 and cell_len(" · ".join(facts)) > options.width - 6:
            facts.pop()
        words = Text(f"┄┄ {' · '.join(facts)} ┄┄", options.styles.seam, end="")
        words.truncate(options.width, overflow="ellipsis")
        keys = Text(f"   {'' if self._undone else KEYS}", options.styles.muted, end="")
        keys.truncate(options.width, overflow="ellipsis")
        rows = [*wrap(words, options.width + 1)[:1]]
        if not self._undone:
            rows += wrap(keys, options.width + 1)[:1]
        return [*(line.within(block) for line in rows), BLANK]


def compaction_facts(made: CompactionRecord, kept: str = "", *, undone: bool = False) -> list[str]:
    """Return the facts about a compaction, the most important first."""
    turns = f"{made.turns} turn{'' if made.turns == 1 else 's'}"
    verb = "trimmed" if made.trims else "compacted"
    facts = [f"{verb} {turns}"]
    if made.tokens_before:
        change = made.tokens_after / made.tokens_before - 1
        sign = "−" if change < 0 else "+"
        before, after = (
            number_format.tokens(made.tokens_before),
            number_format.tokens(made.tokens_after),
        )
        facts.append(f"{before} → {after} tok ({sign}{number_format.percent(abs(change))})")
    if undone:
        facts.append("undone")
    if made.seconds:
        facts.append(number_format.duration(made.seconds))
    if kept:
        facts.append(f"kept: {kept}")
    if made.kv_pages:
        facts.append(f"KV −{number_format.tokens(made.kv_pages)} pages")
    return facts
