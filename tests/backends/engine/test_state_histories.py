"""Stateful test of the cache of states: each sequence goes on from the states of its own tokens."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from ingle.backends.engine.kv.state_cache import StateCache

from .test_paged_histories import Histories, MakeRunner


class StateHistories(Histories):
    """Histories whose sequences have states as well."""

    cache: StateCache

    @invariant()
    def every_row_has_one_owner(self) -> None:
        if not hasattr(self, "cache"):
            return
        cache: Any = self.cache
        rows, running = cache.rows, cache._states
        assert running.keys() == set(self.present)
        live = [state.row for state in running.values()]
        drafts = [row for state in running.values() for row in state.drafts]
        snapshots = [snapshot.row for snapshot in rows._by_use]
        free = list(rows._free)
        assert sorted(live + drafts + snapshots + free) == list(range(self.runner.num_states))
        held = [each for held in rows._held.values() for each in held.values()]
        assert set(held) == set(rows._by_use)
        self.runner.states[free] = 0x5EED_5EED
        pages = _blocks(self.cache)
        for snapshot in held:
            holder = snapshot.holder
            if hasattr(holder, "parent"):
                assert holder in pages
                assert holder.parent.end < snapshot.length <= holder.end


def _blocks(cache: StateCache) -> set[Any]:
    pages: list[Any] = list(cache.pages.root.children.values())
    for page in pages:  # grows during the loop
        pages.extend(page.children.values())
    return set(pages)


@pytest.mark.parametrize(
    "examples", [60, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
@pytest.mark.parametrize(
    "snapshots", [6, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (0, 60))]
)
def test_random_histories_keep_every_state_consistent(
    stateful_number_runner: MakeRunner, examples: int, snapshots: int
) -> None:
    class Bound(StateHistories):
        def __init__(self) -> None:
            super().__init__(partial(stateful_number_runner, snapshots=snapshots))

    run_state_machine_as_test(
        Bound,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
