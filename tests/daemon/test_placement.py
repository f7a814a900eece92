"""Tests of the eviction plan."""

from __future__ import annotations

import pytest

from ingle.daemon.placement import Demand, Occupant, plan


def idle(key: str, size: int, last_used: float) -> Occupant:
    return Occupant(key, size, busy=False, last_used=last_used)


def busy(key: str, size: int) -> Occupant:
    return Occupant(key, size, busy=True, last_used=0.0)


@pytest.mark.parametrize(
    ("wanted", "loaded", "free", "evicted"),
    [
        pytest.param(5, [], 5, (), id="fits-exactly"),
        pytest.param(5, [idle("a", 3, 1)], 6, (), id="room-enough-beside-another"),
        pytest.param(5, [idle("a", 3, 1), idle("b", 3, 2)], 2, ("a",), id="oldest-first"),
        pytest.param(5, [idle("b", 3, 2), idle("a", 3, 1)], 2, ("a",), id="any-order-of-list"),
        pytest.param(8, [idle("a", 3, 1), idle("b", 3, 2)], 2, ("a", "b"), id="several"),
        pytest.param(8, [idle("a", 1, 1), idle("b", 9, 2)], 0, ("b",), id="small-one-is-spared"),
        pytest.param(
            9, [idle("a", 2, 1), idle("b", 2, 2), idle("c", 7, 3)], 0, ("a", "c"), id="spare-newest"
        ),
        pytest.param(5, [busy("a", 9), idle("b", 5, 1)], 0, ("b",), id="never-a-busy-one"),
        pytest.param(0, [idle("a", 3, 1)], 0, (), id="nothing-wanted"),
    ],
)  # fmt: skip
def test_evicts_what_is_needed_and_no_more(
    wanted: int, loaded: list[Occupant], free: int, evicted: tuple[str, ...]
) -> None:
    placement = plan(Demand("new", wanted), loaded, free)
    assert placement.fits
    assert placement.evict == evicted
    assert placement.free_after == free + sum(o.size for o in loaded if o.key in evicted)
    assert placement.free_after >= wanted


def test_evicts_nobody_where_it_would_not_help() -> None:
    placement = plan(Demand("new", 100), [idle("a", 3, 1), busy("b", 4)], 5)
    assert not placement.fits
    assert placement.evict == ()
    assert placement.free_after == 8
    assert placement.blockers == ()


def test_names_the_busy_ones_it_would_fit_without() -> None:
    placement = plan(Demand("new", 10), [busy("b", 7), idle("a", 3, 1)], 0)
    assert not placement.fits
    assert placement.blockers == ("b",)


def test_negative_free_memory_must_be_made_up_for() -> None:
    placement = plan(Demand("new", 2), [idle("a", 3, 1), idle("b", 3, 2)], -2)
    assert placement.evict == ("a", "b")
