"""The page map as values: which cell stands for which pages of the KV cache, and whose they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum

import msgspec

from ..client.api_types import PageGroup, PagesEvent
from ..text import number_format


class PageState(IntEnum):
    """Whose a page is, seen from one chat; of two that are as frequent the greater is shown."""

    FREE = 0
    REUSABLE = 1
    UNDO = 2
    MINE = 3
    SHARED = 4

    @property
    def glyph(self) -> str:
        """The sign that stands for it on the map."""
        return "·▒▲█◆"[self]

    @property
    def word(self) -> str:
        """Its name in a legend."""
        return ("free", "reusable", "undo", "this chat", "shared")[self]


class PageMapCell(msgspec.Struct, frozen=True):
    """One cell of the map: the pages `first` to `last`, and what most of them are.

    `group` is the one that has most pages of that state, -1 for free ones.
    """

    first: int
    last: int
    state: PageState
    group: int


def chat_of(label: str) -> str:
    """The chat that a label of a conversation belongs to: the part before a compaction."""
    return label.partition("@")[0]


def state_of(group: PageGroup, label: str) -> PageState:
    """What a group's pages are to the chat that is now sent as `label`."""
    chats = {chat_of(conversation) for conversation in group.conversations}
    if len(chats) > 1:
        return PageState.SHARED
    if label and chats == {chat_of(label)}:
        return PageState.MINE if label in group.conversations else PageState.UNDO
    return PageState.REUSABLE


def _runs(event: PagesEvent) -> Iterator[tuple[int, int, int]]:
    """Group, first page and end of each run, cut at the number of pages and filled up to it."""
    start = 0
    for group, count in event.runs:
        end = min(start + count, event.pages)
        if end > start:
            yield (group if 0 <= group < len(event.groups) else -1), start, end
        start = end
    if start < event.pages:
        yield -1, start, event.pages


def page_counts(event: PagesEvent, label: str) -> dict[PageState, int]:
    """How many pages are in each state."""
    states = [state_of(group, label) for group in event.groups]
    counts = dict.fromkeys(PageState, 0)
    for group, start, end in _runs(event):
        counts[states[group] if group >= 0 else PageState.FREE] += end - start
    return counts


def pages_per_cell(pages: int, cells: int) -> int:
    """How many pages a cell stands for, so that all find room in `cells`."""
    return max(1, -(-pages // max(1, cells)))


def page_cells(event: PagesEvent, label: str, cells: int) -> list[PageMapCell]:
    """The map for a chat that is now sent as `label`, of at most `cells` cells.

    A cell stands for ceil(pages / cells) pages, the last one for what is left of them.
    """
    states = [state_of(group, label) for group in event.groups]
    per_cell = pages_per_cell(event.pages, cells)
    found: list[Counter[int]] = [Counter() for _ in range(0, event.pages, per_cell)]
    for group, start, end in _runs(event):
        for index in range(start // per_cell, (end - 1) // per_cell + 1):
            first = index * per_cell
            found[index][group] += min(end, first + per_cell) - max(start, first)
    return [
        _cell(index * per_cell, min((index + 1) * per_cell, event.pages), groups, states)
        for index, groups in enumerate(found)
    ]


def _cell(first: int, end: int, groups: Counter[int], states: list[PageState]) -> PageMapCell:
    by_state: Counter[PageState] = Counter()
    for group, count in groups.items():
        by_state[states[group] if group >= 0 else PageState.FREE] += count
    state = max(by_state, key=lambda s: (by_state[s], s))
    owners = [g for g in groups if (states[g] if g >= 0 else PageState.FREE) is state]
    return PageMapCell(first, end - 1, state, max(owners, key=lambda g: (groups[g], -g)))


def evicted_pages(before: PagesEvent | None, after: PagesEvent) -> set[int]:
    """The pages whose content gave way between two events, if the cache says that any did."""
    if before is None or before.model != after.model or before.pages != after.pages:
        return set()
    if after.evicted_pages_total <= before.evicted_pages_total:
        return set()
    old, new = _owners(before), _owners(after)
    return {page for page, owner in enumerate(old) if owner and owner != new[page]}


def _owners(event: PagesEvent) -> list[tuple[str, ...]]:
    owners: list[tuple[str, ...]] = []
    for group, start, end in _runs(event):
        # An unnamed owner is an owner too.
        owner = tuple(event.groups[group].conversations) or ("",) if group >= 0 else ()
        owners += [owner] * (end - start)
    return owners


def explain(
    cell: PageMapCell, event: PagesEvent, label: str, title_of: Callable[[str], str | None]
) -> str:
    """A sentence about a cell; `title_of` tells a chat's title by its name, None if unknown."""
    one = cell.first == cell.last
    pages = f"page {cell.first}" if one else f"pages {cell.first}–{cell.last}"
    if cell.group < 0:
        return f"{pages}: free"
    group = event.groups[cell.group]
    first = cell.first * event.page_tokens
    last = (cell.last + 1) * event.page_tokens - 1
    places = f"tokens {number_format.tokens(first)}–{number_format.tokens(last)}"
    used = "in use now" if group.running else f"used {ago(group.idle_seconds)}"
    return f"{pages}: {whose(group, cell.state, label, title_of)}, {places}, {used}"


def whose(
    group: PageGroup, state: PageState, label: str, title_of: Callable[[str], str | None]
) -> str:
    """Words for the owners of a group of pages."""
    others = sorted({chat_of(name) for name in group.conversations} - {chat_of(label)} - {""})
    titles = [f"“{title}”" for name in others if (title := title_of(name))]
    match state:
        case PageState.MINE:
            return "this chat"
        case PageState.UNDO:
            return "this chat before it was compacted, kept for undo"
        case PageState.SHARED:
            here = any(chat_of(name) == chat_of(label) for name in group.conversations if label)
            among = "this chat and " if here else ""
            return f"the beginning of {among}{_some(others, titles)}"
        case _:
            return titles[0] if titles else "another chat" if others else "another program"


def _some(names: list[str], titles: list[str]) -> str:
    if titles and len(titles) == len(names) <= 2:
        return " and ".join(titles)
    return "another chat" if len(names) == 1 else f"{len(names)} other chats"


def ago(seconds: float) -> str:
    """How long ago something was, in one word or two."""
    if seconds < 1:
        return "just now"
    if seconds < 90:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 5400 else f"{seconds / 3600:.0f} h ago"
