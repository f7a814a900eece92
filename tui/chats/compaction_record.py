"""A compaction: a summary that replaces the earlier part of a chat in requests; originals stay."""

from __future__ import annotations

import time

import msgspec

from .message_ids import new_id


class CompactionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One compaction: `summary` covers everything up to the message `at`.

    `after` is the compaction whose summary precedes this one; None if this one covers everything.
    `kept` are the pinned messages in the range, which stay verbatim. Counts are tokens, `kv_pages`
    pages of the KV cache, `seconds` the time it took.
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
    are omitted from requests.
    """
