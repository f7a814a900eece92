"""The page map of a cache of cells: which slots each cell belongs to, page by page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .conversation_trace import MOST, Trace
from .page_groups import FREE, PageStories

PAGE_TOKENS = 32
"""Consecutive cells that a map tells of together."""


@dataclass(frozen=True)
class Stretch:
    """Cells of one slot that the same conversations ran through."""

    cells: NDArray[np.int32]
    trace: Trace
    running: bool
    left_at: float


def cell_owners(
    stretches: Sequence[Stretch], capacity: int, stories: PageStories
) -> NDArray[np.int32]:
    """The story of each page of cells, and in `stories` how many tokens each one is about.

    A page is free where all its cells are; else it is told as of the story that most of its cells
    have.
    """
    kind_of_cell, members = _split([stretch.cells for stretch in stretches], capacity)
    number_of_kind = np.array(
        [_number([stretches[i] for i in kind], stories) if kind else FREE for kind in members],
        np.int32,
    )
    numbers = number_of_kind[kind_of_cell]
    count = len(stories.tokens)
    pages = -(-capacity // PAGE_TOKENS)
    if not count:
        return np.full(pages, FREE, np.int32)
    places = np.flatnonzero(numbers != FREE)
    told = numbers[places]
    kinds = np.bincount(places // PAGE_TOKENS * count + told, minlength=pages * count)
    table = kinds.reshape(pages, count)
    for number, tokens in enumerate(table.sum(axis=0).tolist()):
        stories.tokens[number] += tokens
    return np.where(table.any(axis=1), table.argmax(axis=1), FREE).astype(np.int32)


def _split(
    stretches: Iterable[NDArray[np.int32]], capacity: int
) -> tuple[NDArray[np.intp], list[tuple[int, ...]]]:
    """For each cell the number of its kind, and for each kind the stretches that have it.

    Those of kind 0 belong to none; some kinds have no cells.
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


def _number(sharing: list[Stretch], stories: PageStories) -> int:
    """The one story of cells that several slots share."""
    sharing = sorted(sharing, key=lambda s: (s.running, s.left_at), reverse=True)
    labels = dict.fromkeys(label for stretch in sharing for label in stretch.trace)
    first = sharing[0]
    return stories.number(tuple(labels)[:MOST], first.running, first.left_at)
