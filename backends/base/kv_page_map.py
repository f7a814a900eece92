"""The page map of a KV cache: the conversations in each page."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class KVPageGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Pages that the same conversations used, and left together.

    `conversations` are sorted by last use, running ones first; "" stands for requests that named
    none. `tokens` counts the tokens in all pages; `idle_seconds` is the time since their last use,
    0 while `running`.
    """

    conversations: list[str]
    running: bool
    tokens: int
    idle_seconds: float


class KVPageMap(msgspec.Struct, frozen=True, kw_only=True):
    """A KV cache, page by page.

    `runs` are (index into `groups`, or -1 for free; number of pages) in the order of the pages, of
    `page_tokens` tokens each; a page that several groups share counts for the one with the largest
    part of it. `memory_tokens` and `disk_tokens` are stored outside of the cache.
    `evicted_pages_total` counts pages evicted since the model was loaded.
    """

    page_tokens: int
    pages: int
    groups: list[KVPageGroup]
    runs: list[tuple[int, int]]
    memory_tokens: int
    disk_tokens: int
    evicted_pages_total: int


PagesSink = Callable[[KVPageMap], None]
"""Receives each new page map; called on the event loop."""
