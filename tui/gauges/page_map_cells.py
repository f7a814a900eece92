"""The cells of the KV page map, with the pages and owners that each stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum

import msgspec

from ingle.daemon.client.daemon_types import PageGroupGauge, PagesEvent

from ..text import number_format


class PageState(IntEnum):
    """The state of a page, seen from one chat; of two equally frequent, the greater is shown."""

    FREE = 0
    REUSABLE = 1
    UNDO = 2
    MINE = 3
    SHARED = 4

    @property
    def glyph(self) -> str:
        """Return its sign on the map."""
        return "·▒▲█◆"[self]

    @property
    def word(self) -> str:
        """Return its name in a legend."""
        return ("free", "reusable", "undo", "this chat", "shared")[self]


class PageMapCell(msgspec.Struct, frozen=True):
    """One cell of the map: the pages `first` to `last`, and the state of most of them.

    `group` is the one with most pages of that state, -1 for free ones.
    """

    first: int
    last: int
    state: PageState
    group: int


def chat_of(label: str) -> str:
    """Return the chat of a conversation label: the part before a compaction."""
    return label.partition("@")[0]


def state_of(group: PageGroupGauge, label: str) -> PageState:
    """Return the state of a group's pages for the chat that is now sent as `label`."""
    chats = {chat_of(conversation) for conversation in group.conversations}
    if len(chats) > 1:
        return PageState.SHARED
    if label and chats == {chat_of(label)}:
        return PageState.MINE if label in group.conversations else PageState.UNDO
    return PageState.REUSABLE


def _runs(event: PagesEvent) -> Iterator[tuple[int, int, int]]:
    """Yield group, first page and end of each run, covering exactly the number of pages."""
    start = 0
    for group, count in event.runs:
        end = min(start + count, event.pages)
        if end > start:
            yield (group if 0 <= group < len(event.groups) else -1), start, end
        start = end
    if start < event.pages:
        yield -1, start, event.pages


def page_counts(event: PagesEvent, label: str) -> dict[PageState, int]:
    """Return how many pages are in each state."""
    states = [state_of(group, label) for group in event.groups]
    counts = dict.fromkeys(PageState, 0)
    for group, start, end in _runs(event):
        counts[states[group] if group >= 0 else PageState.FREE] += end - start
    return counts


def pages_per_cell(pages: int, cells: int) -> int:
    """Return how many pages a cell stands for, so that all fit into `cells`."""
    return max(1, -(-pages // max(1, cells)))


def page_cells(event: PagesEvent, label: str, cells: int) -> list[PageMapCell]:
    """Return the map for a chat that is now sent as `label`, of at most `cells` cells.

    A cell stands for ceil(pages / cells) pages, the last one for the rest.
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
    """Return the pages evicted between two events, if the cache reports evictions."""
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
    """Return a sentence about a cell; `title_of` returns a chat's title, None if unknown."""
    one = cell.first == cell.last
    pages = f"page {cell.first}" if one else f"pages {cell.first}–{cell.last}"
    if cell.group < 0:
        return f"{pages}: free"
    group = event.groups[cell.group]
    first = cell.first * event.page_tokens
    last = (cell.last + 1) * event.page_tokens - 1
    places = f"tokens {number_format.tokens(first)}–{number_format.tokens(last)}"
    used = "in use now" if group.running else f"used {ago(group.idle_seconds)}"
    return f"{pages}: {owners_text(group, cell.state, label, title_of)}, {places}, {used}"


def owners_text(
    group: PageGroupGauge, state: PageState, label: str, title_of: Callable[[str], str | None]
) -> str:
    """Return the owners of a group of pages in words."""
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
            return f"the beginning of {among}{_owner_names(others, titles)}"
        case _:
            return titles[0] if titles else "another chat" if others else "another program"


def _owner_names(names: list[str], titles: list[str]) -> str:
    if titles and len(titles) == len(names) <= 2:
        return " and ".join(titles)
    return "another chat" if len(names) == 1 else f"{len(names)} other chats"


def ago(seconds: float) -> str:
    """Return an age in one or two words."""
    if seconds < 1:
        return "just now"
    if seconds < 90:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 5400 else f"{seconds / 3600:.0f} h ago"
