"""`EntryBlock`: a part of an entry that can be walked to, folded and copied by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["fence", "table", "thought", "tool", "attachment", "seam", "system"]


@dataclass(frozen=True, slots=True)
class EntryBlock:
    """What a part of an entry is.

    `key` names it within its entry and stays while the entry grows; `text` is what copying it
    gives; `folded` is None where nothing can be folded.
    """

    kind: BlockKind
    key: str
    text: str
    folded: bool | None = None
