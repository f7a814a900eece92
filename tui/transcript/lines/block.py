"""A part of an entry that can be navigated to, folded and copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["fence", "table", "thought", "tool", "attachment", "seam", "system"]


@dataclass(frozen=True, slots=True)
class EntryBlock:
    """Kind and content of a part of an entry.

    `key` identifies it within its entry and stays while the entry grows; `text` is what copying it
    gives; `folded` is None if it cannot be folded.
    """

    kind: BlockKind
    key: str
    text: str
    folded: bool | None = None
