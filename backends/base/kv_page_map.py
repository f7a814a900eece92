"""The page map of a KV cache: what each page holds."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class KVPageGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Pages with one history: the same conversations used them, and left them together.

    Of `conversations`, those that run or ran last come first; "" stands for requests that named
    none. `tokens` is what is in all of them; `idle_seconds` since their last use, 0 while
    `running`.
    """

    conversations: list[str]
    running: bool
    tokens: int
    idle_seconds: float


class KVPageMap(msgspec.Struct, frozen=True, kw_only=True):
    """A KV cache, page by page.

    `runs` are (index into `groups`, or -1 for free; number of pages) in the order of the pages, of
    `page_tokens` tokens each; a page that several groups share counts as that of the one with most
    of it. `memory_tokens` and `disk_tokens` are stored outside of the cache. `evicted_pages_total`
    counts pages evicted since the model was loaded.
    """

    page_tokens: int
    pages: int
    groups: list[KVPageGroup]
    runs: list[tuple[int, int]]
    memory_tokens: int
    disk_tokens: int
    evicted_pages_total: int


PagesSink = Callable[[KVPageMap], None]
"""Takes each new page map; called on the event loop."""
