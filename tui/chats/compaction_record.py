"""`CompactionRecord`: a summary that stands for the earlier part of a chat; the originals stay."""

from __future__ import annotations

import time

import msgspec

from .message_ids import new_id


class CompactionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One act of compacting: everything up to the message `at` is told by `summary`.

    `after` names the compaction whose summary stands before this one; None where this one tells
    all. `kept` are the messages in the range that go on word for word, since they are pinned.
    Counts are tokens, `kv_pages` pages of the KV cache, `seconds` what it took.
    """

    at: str
    summary: str
    after: str | None = None
    kept: tuple[str, ...] = ()
    id: str = msgspec.field(default_factory=new_id)
    created: float = msgspec.field(default_factory=time.time)
    model: str = ""
    focus: str = ""
    turns: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    kv_pages: int = 0
    seconds: float = 0.0
    trims: bool = False
    """Made without a model: `summary` is empty, and attachments and long pasted texts up to `at`
    are left out of what is sent."""
