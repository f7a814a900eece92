"""The layout of the transcript: entry heights, estimates and positions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingle.tui.transcript.view.line_view import TranscriptLayout


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1))
def test_positions_follow_the_exact_heights(heights: list[tuple[int, int]]) -> None:
    layout = TranscriptLayout()
    for estimate, _ in heights:
        layout.append(estimate)
    for index, (estimate, exact) in enumerate(heights):
        assert layout.set_exact(index, exact) == exact - estimate
    lines = [(index, line) for index, (_, exact) in enumerate(heights) for line in range(exact)]
    assert [layout.locate(y) for y in range(layout.total)] == lines
    assert layout.nearest_estimated(0, len(heights), len(heights)) is None


def test_nearest_estimated_entry_comes_first() -> None:
    layout = TranscriptLayout()
    layout.estimate([2] * 9)
    layout.set_exact(4, 5)
    layout.set_exact(5, 5)
    assert layout.nearest_estimated(4, 5, 1) == 3
    layout.set_exact(3, 2)
    assert layout.nearest_estimated(4, 5, 1) == 6
    layout.set_exact(6, 2)
    assert layout.nearest_estimated(4, 5, 1) is None
    assert layout.nearest_estimated(4, 5, 2) == 2


@given(
    st.lists(st.integers(1, 9), min_size=1),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9))),
)
def test_tops_follow_height_changes_in_any_order(
    heights: list[int], changes: list[tuple[int, int]]
) -> None:
    layout = TranscriptLayout()
    layout.estimate(list(heights))
    for place, height in changes:
        index = place % len(heights)
        layout.set_exact(index, height)
        heights[index] = height
        assert layout.top(index) == sum(heights[:index])
        assert layout.total == sum(heights)
    layout.remove(0)
    assert layout.total == sum(heights[1:])
    layout.append(3)
    assert layout.total == sum(heights[1:]) + 3
