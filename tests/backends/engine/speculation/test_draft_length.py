"""`DraftLength`: how deep a model drafts."""

from __future__ import annotations

import pytest

from ingle.backends.engine.speculation.draft_length import DraftLength
from ingle.backends.engine.speculation.step_costs import StepCosts


@pytest.mark.parametrize(
    ("room", "power", "depth"),
    [(8, 1, 8), (8, 10, 1), (0, 1, 0)],
    ids=["each token costs the same", "the second costs too much", "no room"],
)
def test_depth_is_the_one_that_pays_most(room: int, power: int, depth: int) -> None:
    costs = StepCosts()
    for size in (1, 2, 4, 9):
        costs.observe(size, 0.02)
    chosen, gain = DraftLength(costs).choose_depth(
        1, [0.95], room, lambda drafted: 0.001 * drafted**power
    )
    assert chosen == depth
    assert (gain > 1.1) is bool(depth)
