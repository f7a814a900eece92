"""The stops of the block cursor in an entry, and the actions available at each."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..entries.answer_entry import AnswerEntry
from ..entries.entry import Entry
from ..entries.prompt_entry import PromptEntry
from ..entries.step_entry import StepEntry
from ..lines import EntryBlock, RenderedLine

Action = Literal["menu", "copy", "edit", "again", "branch", "pin", "fold", "open", "undo"]
KEY_ACTIONS: tuple[tuple[str, Action, str], ...] = (
    ("enter", "menu", "What can be done with it"),
    ("y", "copy", "Copy it"),
    ("e", "edit", "Edit the prompt, as a new branch"),
    ("r", "again", "Answer again"),
    ("b", "branch", "Go on from here in a new chat"),
    ("p", "pin", "Pin it: kept word for word when compacting"),
    ("z", "fold", "Fold or unfold it"),
    ("o", "open", "Open the original messages"),
    ("u", "undo", "Undo the compaction, or the edit of a tool"),
)
"""Single keys, and their actions on the block under the cursor."""
KEYS: dict[str, Action] = {key: action for key, action, _ in KEY_ACTIONS}


class BlockStop(msgspec.Struct, frozen=True):
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
        """Return the text to copy."""
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


def is_compaction(at: BlockStop) -> bool:
    """Return whether it is a compaction."""
    return at.block is not None and at.block.kind == "seam"


def actions(at: BlockStop) -> list[Action]:
    """Return the actions on a block, in the order in which they are offered."""
    if is_compaction(at):
        return ["menu", "copy", "undo", "open"]
    found: list[Action] = ["menu", "copy"]
    if at.entry.id and isinstance(at.entry, PromptEntry):
        found += ("edit", "again", "branch", "pin")
    elif at.entry.id and isinstance(at.entry, AnswerEntry):
        found += ("again", "branch", "pin")
    elif isinstance(at.entry, StepEntry) and at.entry.can_undo:
        found.append("undo")
    if at.block is not None and at.block.folded is not None:
        found += ("fold", "open")
    elif at.block is None and at.entry.has_foldable:
        found.append("fold")
    return found
