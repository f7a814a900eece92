"""Numbers what pages have been through, for a map of the KV cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...base.kv_page_map import PageGroup, PageMap
from ..kv_store.kv_store import KVStore
from .conversation_trace import Trace

FREE = -1

Story = tuple[Trace, bool, float]
"""Who ran through it, whether somebody does now, and when the last one left (monotonic)."""


class PageStories:
    """Gives each story a number from 0, and counts the tokens it is about."""

    def __init__(self) -> None:
        self._numbers: dict[Story, int] = {}
        self.tokens: list[int] = []
        """By number; whoever makes the map counts."""

    def number(self, trace: Trace, running: bool, left_at: float) -> int:
        """The number of a story; when somebody left does not matter while somebody is there."""
        story = (trace, running, 0.0 if running else left_at)
        number = self._numbers.get(story)
        if number is None:
            number = self._numbers[story] = len(self.tokens)
            self.tokens.append(0)
        return number

    def map(
        self,
        owners: NDArray[np.int32],
        page_tokens: int,
        *,
        store: KVStore | None,
        evicted: int,
        now: float,
    ) -> PageMap:
        """The map of pages of which each has the story of this number, or is `FREE`."""
        groups = [
            PageGroup(
                conversations=list(trace),
                running=running,
                tokens=tokens,
                idle_seconds=0.0 if running else round(max(0.0, now - left_at), 3),
            )
            for (trace, running, left_at), tokens in zip(self._numbers, self.tokens, strict=True)
        ]
        return PageMap(
            page_tokens=page_tokens,
            pages=len(owners),
            groups=groups,
            runs=_runs(owners),
            memory_tokens=store.memory_tokens if store is not None else 0,
            disk_tokens=store.disk_tokens if store is not None else 0,
            evicted_pages_total=evicted,
        )


def _runs(owners: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Equal neighbours in one, each with how many there are."""
    changes = np.flatnonzero(owners[1:] != owners[:-1]) + 1
    starts = np.concatenate(([0], changes)) if len(owners) else changes
    lengths = np.diff(starts, append=len(owners))
    return list(zip(owners[starts].tolist(), lengths.tolist(), strict=True))
