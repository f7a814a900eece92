from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingle.tui.transcript.transcript_layout import TranscriptLayout


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1))
def test_positions_follow_the_heights(heights: list[tuple[int, int]]) -> None:
    layout = TranscriptLayout()
    for guess, _ in heights:
        layout.append(guess, exact=False)
    for index, (guess, exact) in enumerate(heights):
        assert layout.set_exact(index, exact) == exact - guess
    lines = [(index, line) for index, (_, exact) in enumerate(heights) for line in range(exact)]
    assert [layout.locate(y) for y in range(layout.total)] == lines
    assert layout.last_guessed() is None


def test_the_lowest_guess_comes_first() -> None:
    layout = TranscriptLayout()
    for _ in range(3):
        layout.append(2, exact=False)
    layout.set_exact(2, 5)
    assert layout.last_guessed() == 1
    layout.guess([1, 1, 1])
    assert layout.last_guessed() == 2
    layout.remove(0)
    assert layout.total == 2
    layout.clear()
    assert layout.total == 0
