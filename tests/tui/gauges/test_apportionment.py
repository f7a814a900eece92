"""Apportioning amounts to a number of cells."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingle.tui.gauges.context_usage import apportion


@given(st.lists(st.integers(0, 10**12), max_size=8), st.integers(0, 120))
def test_cells_add_up_and_no_amount_is_lost(amounts: list[int], width: int) -> None:
    cells = apportion(amounts, width)
    assert len(cells) == len(amounts)
    if not sum(amounts):
        assert not any(cells)
        return
    assert sum(cells) == width
    some = sum(1 for amount in amounts if amount)
    assert all(cell == 0 for cell, amount in zip(cells, amounts, strict=True) if not amount)
    if width >= some:
        assert all(cell for cell, amount in zip(cells, amounts, strict=True) if amount)


def test_cells_are_proportional() -> None:
    assert apportion([50, 25, 25], 8) == [4, 2, 2]
