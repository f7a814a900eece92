"""The cells of the page map: states, counts, evicted pages and explanations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.client.daemon_types import PageGroupGauge, PagesEvent
from ingle.tui.gauges.page_map_cells import (
    PageMapCell,
    PageState,
    evicted_pages,
    explain,
    page_cells,
    page_counts,
    state_of,
)

CHAT = "mine"
LABELS = ["mine", "mine@c1", "mine@c2", "other", "third@x", ""]


@st.composite
def events(draw: st.DrawFn) -> PagesEvent:
    held = st.lists(st.sampled_from(LABELS), min_size=1, max_size=3, unique=True)
    groups = [
        PageGroupGauge(conversations=conversations, tokens=1)
        for conversations in draw(st.lists(held, max_size=4))
    ]
    owner = st.integers(-1, len(groups) - 1)
    runs = draw(st.lists(st.tuples(owner, st.integers(1, 40)), max_size=12))
    reported = sum(count for _, count in runs)
    unreported = draw(st.integers(0, 20))
    return PagesEvent(
        model="m", page_tokens=16, pages=reported + unreported, groups=groups, runs=runs
    )


def expanded(event: PagesEvent) -> list[int]:
    """The group of each page of the event, -1 for free pages."""
    owners = [group for group, count in event.runs for _ in range(count)]
    return owners + [-1] * (event.pages - len(owners))


def expected_state(event: PagesEvent, group: int, label: str) -> PageState:
    """A second implementation, independent of the product's."""
    if group < 0:
        return PageState.FREE
    labels = event.groups[group].conversations
    if len({name.split("@")[0] for name in labels}) >= 2:
        return PageState.SHARED
    if label in labels:
        return PageState.MINE
    if labels[0].split("@")[0] == label.split("@")[0]:
        return PageState.UNDO
    return PageState.REUSABLE


@given(events(), st.integers(1, 90), st.sampled_from(["mine", "mine@c1", "new"]))
def test_cell_has_the_most_frequent_state_of_its_pages(
    event: PagesEvent, cells: int, label: str
) -> None:
    owners = expanded(event)
    states = [expected_state(event, group, label) for group in owners]
    drawn = page_cells(event, label, cells)
    assert len(drawn) <= cells
    assert [page for cell in drawn for page in range(cell.first, cell.last + 1)] == list(
        range(event.pages)
    )
    sizes = {cell.last - cell.first + 1 for cell in drawn[:-1]}
    assert sizes <= {-(-event.pages // cells)}
    for cell in drawn:
        within = states[cell.first : cell.last + 1]
        most = max(within.count(state) for state in PageState)
        assert cell.state == max(state for state in PageState if within.count(state) == most)
        if cell.state is PageState.FREE:
            assert cell.group == -1
            continue
        mine = [g for g, s in zip(owners, states, strict=True) if s is cell.state]
        assert cell.group in mine
        counts = {g: owners[cell.first : cell.last + 1].count(g) for g in set(mine)}
        assert counts[cell.group] == max(counts.values())


@given(events(), st.sampled_from(["mine", "mine@c2"]))
def test_page_counts_match_the_pages(event: PagesEvent, label: str) -> None:
    states = [expected_state(event, group, label) for group in expanded(event)]
    assert page_counts(event, label) == {state: states.count(state) for state in PageState}


@given(events())
def test_map_with_one_cell_per_page_shows_every_page(event: PagesEvent) -> None:
    drawn = page_cells(event, CHAT, max(1, event.pages))
    assert [cell.group for cell in drawn] == expanded(event)


@given(events(), events())
def test_no_evicted_pages_without_an_eviction_count(a: PagesEvent, b: PagesEvent) -> None:
    assert evicted_pages(a, b) == set()
    assert evicted_pages(None, b) == set()


def event(*runs: tuple[int, int], evicted: int = 0) -> PagesEvent:
    groups = [
        PageGroupGauge(conversations=["mine"], running=True, tokens=90),
        PageGroupGauge(conversations=["other"], tokens=60, idle_seconds=4),
        PageGroupGauge(conversations=["mine", "other"], tokens=32, idle_seconds=200),
        PageGroupGauge(conversations=["mine@before"], tokens=32, idle_seconds=7200),
        PageGroupGauge(conversations=[""], tokens=32),
    ]
    return PagesEvent(
        model="m",
        page_tokens=32,
        pages=12,
        groups=groups,
        runs=list(runs),
        evicted_pages_total=evicted,
    )


def test_evicted_pages_are_found() -> None:
    before = event((1, 4), (0, 4))
    after = event((0, 2), (1, 2), (0, 4), (-1, 4), evicted=2)
    assert evicted_pages(before, after) == {0, 1}


def test_more_important_state_is_shown_on_a_tie() -> None:
    drawn = page_cells(event((-1, 1), (0, 1), (1, 1), (-1, 1), (0, 1), (2, 1)), "mine", 6)
    assert [cell.state for cell in drawn[:3]] == [
        PageState.MINE,
        PageState.REUSABLE,
        PageState.SHARED,
    ]


def test_chat_without_label_owns_no_pages() -> None:
    assert state_of(PageGroupGauge(conversations=[""]), "") is PageState.REUSABLE


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (PageMapCell(96, 101, PageState.FREE, -1), "pages 96–101: free"),
        (
            PageMapCell(96, 101, PageState.MINE, 0),
            "pages 96–101: this chat, tokens 3 072–3 263, in use now",
        ),
        (PageMapCell(3, 3, PageState.REUSABLE, 1), "page 3: “Tea”, tokens 96–127, used 4 s ago"),
        (
            PageMapCell(0, 0, PageState.SHARED, 2),
            "page 0: the beginning of this chat and “Tea”, tokens 0–31, used 3 min ago",
        ),
        (
            PageMapCell(0, 0, PageState.UNDO, 3),
            "page 0: this chat before it was compacted, kept for undo, tokens 0–31, used 2 h ago",
        ),
        (
            PageMapCell(0, 0, PageState.REUSABLE, 4),
            "page 0: another program, tokens 0–31, used just now",
        ),
    ],
)
def test_cell_explanations(cell: PageMapCell, sentence: str) -> None:
    titles = {"other": "Tea"}
    assert explain(cell, event(), "mine", titles.get) == sentence
