"""The actions available on a block of the chat."""

from __future__ import annotations

from ..entries.all_entries import AnswerEntry, PromptEntry
from .block_navigation import BlockStop
from .transcript import Action


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
    if at.block is not None and at.block.folded is not None:
        found += ("fold", "open")
    elif at.block is None and at.entry.has_foldable:
        found.append("fold")
    return found
