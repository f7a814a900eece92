"""The stops of the block cursor in an entry."""

from __future__ import annotations

from dataclasses import dataclass

from ..entries.entry import Entry
from ..lines.block import EntryBlock
from ..lines.line import RenderedLine


@dataclass(frozen=True, slots=True)
class BlockStop:
    """A whole entry if `block` is None, else a part of it; lines count within the entry."""

    entry: Entry
    block: EntryBlock | None
    first: int
    last: int

    @property
    def key(self) -> str | None:
        """Return the key of the block within its entry."""
        return None if self.block is None else self.block.key

    @property
    def text(self) -> str:
        """Return what copying it gives."""
        return self.entry.text if self.block is None else self.entry.block_text(self.block)


def stops(entry: Entry, lines: list[RenderedLine]) -> list[BlockStop]:
    """Return the message as a whole, then its blocks from top to bottom; a compaction is
    one block.
    """
    if not entry.walkable:
        return []
    found: dict[str, BlockStop] = {}
    for number, line in enumerate(lines):
        if line.block is not None:
            first = found[line.block.key].first if line.block.key in found else number
            found[line.block.key] = BlockStop(entry, line.block, first, number)
    parts = list(found.values())
    if parts and lines and lines[0].block is not None:
        return parts
    return [BlockStop(entry, None, 0, max(0, len(lines) - 2)), *parts]
