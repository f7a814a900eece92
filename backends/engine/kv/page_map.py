"""The page map of a KV cache: which conversations used each page, and which run on it now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...base.kv_page_map import KVPageGroup, KVPageMap
from ..kv_store.kv_store import KVStore

MOST = 8
"""The most conversations in a trace."""
PAGE_TOKENS = 32
"""Consecutive cells of a page in the map of a cache of cells."""
FREE = -1

Trace = tuple[str, ...]
"""Labels of the conversations that used some tokens, the latest first."""


def remember(trace: Trace, conversation: str) -> Trace:
    """The trace after this conversation used the tokens, too."""
    if trace and trace[0] == conversation:
        return trace
    return merge_traces((conversation,), trace)


def merge_traces(later: Trace, earlier: Trace) -> Trace:
    """Both traces in one, without duplicates."""
    return tuple(dict.fromkeys((*later, *earlier)))[:MOST]


class PageGroups:
    """Groups of pages with one trace and last use, numbered from 0."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Trace, bool, float], int] = {}
        self.tokens: list[int] = []
        """Tokens of each group, counted by the caller."""

    def number(self, trace: Trace, running: bool, left_at: float) -> int:
        """The group's number; `left_at` (monotonic) is ignored while a sequence runs on it."""
        key = (trace, running, 0.0 if running else left_at)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.tokens)
            self.tokens.append(0)
        return number

    def map(
        self,
        owners: NDArray[np.int32],
        page_tokens: int,
        *,
        store: KVStore | None,
        evicted: int,
    ) -> KVPageMap:
        """The map of pages, given the group number of each, or `FREE`."""
        now = time.monotonic()
        groups = [
            KVPageGroup(
                conversations=list(trace),
                running=running,
                tokens=tokens,
                idle_seconds=0.0 if running else round(max(0.0, now - left_at), 3),
            )
            for (trace, running, left_at), tokens in zip(self._numbers, self.tokens, strict=True)
        ]
        return KVPageMap(
            page_tokens=page_tokens,
            pages=len(owners),
            groups=groups,
            runs=_runs(owners),
            memory_tokens=store.memory.tokens if store is not None else 0,
            disk_tokens=store.disk_tokens if store is not None else 0,
            evicted_pages_total=evicted,
        )


def _runs(owners: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Run-length encoding: each number, and how often it is repeated."""
    changes = np.flatnonzero(owners[1:] != owners[:-1]) + 1
    starts = np.concatenate(([0], changes)) if len(owners) else changes
    lengths = np.diff(starts, append=len(owners))
    return list(zip(owners[starts].tolist(), lengths.tolist(), strict=True))


@dataclass(frozen=True)
class Stretch:
    """Consecutive tokens of a slot with one trace, and their cells."""

    cells: NDArray[np.int32]
    trace: Trace
    running: bool
    left_at: float


def cell_owners(
    stretches: Sequence[Stretch], capacity: int, groups: PageGroups
) -> NDArray[np.int32]:
    """The group of each page of cells; counts the tokens of each in `groups`.

    A page is free if all its cells are; otherwise it has the group of most of its cells.
    """
    kind_of_cell, members = _split([stretch.cells for stretch in stretches], capacity)
    number_of_kind = np.array(
        [_number([stretches[i] for i in kind], groups) if kind else FREE for kind in members],
        np.int32,
    )
    numbers = number_of_kind[kind_of_cell]
    count = len(groups.tokens)
    pages = -(-capacity // PAGE_TOKENS)
    if not count:
        return np.full(pages, FREE, np.int32)
    used = np.flatnonzero(numbers != FREE)
    kinds = np.bincount(used // PAGE_TOKENS * count + numbers[used], minlength=pages * count)
    table = kinds.reshape(pages, count)
    for number, tokens in enumerate(table.sum(axis=0).tolist()):
        groups.tokens[number] += tokens
    return np.where(table.any(axis=1), table.argmax(axis=1), FREE).astype(np.int32)


def _split(
    stretches: Iterable[NDArray[np.int32]], capacity: int
) -> tuple[NDArray[np.intp], list[tuple[int, ...]]]:
    """The kind of each cell, and the stretches of each kind.

    Cells of kind 0 belong to no stretch; some kinds have no cells.
    """
    kind_of_cell = np.zeros(capacity, np.intp)
    members: list[tuple[int, ...]] = [()]
    for stretch, cells in enumerate(stretches):
        before = kind_of_cell[cells]
        parted = np.flatnonzero(np.bincount(before, minlength=len(members)))
        after = np.zeros(len(members), np.intp)
        after[parted] = np.arange(len(members), len(members) + len(parted))
        kind_of_cell[cells] = after[before]
        members += [(*members[kind], stretch) for kind in parted.tolist()]
    used = np.bincount(kind_of_cell, minlength=len(members))
    return kind_of_cell, [kind if used[number] else () for number, kind in enumerate(members)]


def _number(sharing: list[Stretch], groups: PageGroups) -> int:
    """The group of cells that several slots share."""
    sharing = sorted(sharing, key=lambda s: (s.running, s.left_at), reverse=True)
    labels = dict.fromkeys(label for stretch in sharing for label in stretch.trace)
    first = sharing[0]
    return groups.number(tuple(labels)[:MOST], first.running, first.left_at)
