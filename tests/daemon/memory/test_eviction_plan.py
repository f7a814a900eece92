"""Eviction planning: which idle models are unloaded to free memory."""

from __future__ import annotations

import random
from itertools import chain, combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.memory.eviction_plan import (
    START_SECONDS,
    EvictionPlan,
    ResidentModel,
    plan_eviction,
    reload_seconds,
)
from ingle.daemon.model_process.model_history import HALF_LIFE, decayed
from ingle.models.fit.memory_needs import MemoryNeeds

pytestmark = pytest.mark.quick

GB = 10**9


def idle(key: str, size: int, last_used: float, *, gpu: int = 0, **more: float) -> ResidentModel:
    resident = ResidentModel(key=key, needs=MemoryNeeds(size, gpu), last_used=last_used)
    return msgspec.structs.replace(resident, **more)


def busy(key: str, size: int, *, gpu: int = 0) -> ResidentModel:
    return ResidentModel(key=key, needs=MemoryNeeds(size, gpu), busy=True, last_used=0.0)


def place(wanted: int, loaded: list[ResidentModel], free: int) -> EvictionPlan:
    return plan_eviction(MemoryNeeds(wanted), loaded, MemoryNeeds(free))


@pytest.mark.parametrize(
    ("wanted", "loaded", "free", "evicted"),
    [
        pytest.param(5, [], 5, (), id="fits-exactly"),
        pytest.param(5, [idle("a", 3, 1)], 6, (), id="fits-beside-another"),
        pytest.param(5, [idle("a", 3, 1), idle("b", 3, 2)], 2, ("a",), id="oldest-first"),
        pytest.param(5, [idle("b", 3, 2), idle("a", 3, 1)], 2, ("a",), id="any-order-of-list"),
        pytest.param(8, [idle("a", 3, 1), idle("b", 3, 2)], 2, ("a", "b"), id="several"),
        pytest.param(8, [idle("a", 1, 1), idle("b", 9, 2)], 0, ("b",), id="spares-the-small-one"),
        pytest.param(
            9, [idle("a", 2, 1), idle("b", 2, 2), idle("c", 7, 3)], 0, ("a", "c"), id="spare-newest"
        ),
        pytest.param(5, [busy("a", 9), idle("b", 5, 1)], 0, ("b",), id="busy-is-not-evicted"),
        pytest.param(5, [idle("a", 9, 1, pinned=True), idle("b", 5, 2)], 0, ("b",), id="pinned"),
        pytest.param(5, [idle("a", 9, 1, kept=True), idle("b", 5, 2)], 0, ("b",), id="kept-last"),
        pytest.param(
            5,
            [idle("a", 9, 1, kept=True), idle("b", 3, 2), idle("c", 2, 2)],
            0,
            ("b", "c"),
            id="two-others-before-a-kept-one",
        ),
        pytest.param(9, [idle("a", 9, 1, kept=True), idle("b", 5, 2)], 0, ("a",), id="evicts-kept"),
        pytest.param(
            5, [idle("a", 5, 1), idle("b", 5, 2, is_ending=True)], 0, ("b",), id="ending-first"
        ),
        pytest.param(0, [idle("a", 3, 1)], 0, (), id="nothing-needed"),
    ],
)  # fmt: skip
def test_evicts_the_minimum_needed(
    wanted: int, loaded: list[ResidentModel], free: int, evicted: tuple[str, ...]
) -> None:
    eviction = place(wanted, loaded, free)
    assert eviction.fits
    assert eviction.evict == evicted
    assert eviction.free_after.host == free + sum(o.needs.host for o in loaded if o.key in evicted)
    assert eviction.free_after.host >= wanted


def test_reload_time_outweighs_slightly_later_use() -> None:
    large = idle("large", 5, 0, reload_seconds=reload_seconds(60 * GB, 0))
    small = idle("small", 5, HALF_LIFE, reload_seconds=reload_seconds(GB, 0))
    assert place(5, [large, small], 0).evict == ("small",)
    unused = msgspec.structs.replace(large, last_used=-9 * HALF_LIFE)
    assert place(5, [unused, small], 0).evict == ("large",)


def test_model_with_cached_conversations_is_kept_longer() -> None:
    holds = idle("holds", 5, 0, reload_seconds=reload_seconds(GB, 50_000, 900.0))
    empty = idle("empty", 5, 60, reload_seconds=reload_seconds(GB, 0, 900.0))
    assert place(5, [holds, empty], 0).evict == ("empty",)


def test_frequently_used_model_outweighs_recently_used() -> None:
    often = idle("often", 5, 0, uses=12.0)
    once = idle("once", 5, 60, uses=1.0)
    assert place(5, [often, once], 0).evict == ("once",)


def test_host_and_gpu_memory_are_planned_separately() -> None:
    loaded = [idle("cpu", 8, 1), idle("gpu", 1, 2, gpu=8), idle("both", 4, 3, gpu=4)]
    free = MemoryNeeds(2, 1)
    assert plan_eviction(MemoryNeeds(0, 8), loaded, free).evict == ("gpu",)
    assert plan_eviction(MemoryNeeds(9, 0), loaded, free).evict == ("cpu",)
    assert plan_eviction(MemoryNeeds(6, 5), loaded, free).evict == ("both",)
    assert plan_eviction(MemoryNeeds(10, 9), loaded, free).evict == (
        "cpu",
        "gpu",
    )


def test_evicts_nothing_if_it_would_not_fit_anyway() -> None:
    eviction = place(100, [idle("a", 3, 1), busy("b", 4)], 5)
    assert not eviction.fits
    assert eviction.evict == ()
    assert eviction.free_after == MemoryNeeds(8)
    assert eviction.blockers == ()


def test_plan_names_blocking_busy_and_pinned_models() -> None:
    eviction = place(10, [busy("b", 7), busy("c", 7), idle("a", 3, 1)], 0)
    assert not eviction.fits
    assert eviction.blockers == ("b",)
    stuck = place(10, [busy("b", 3), idle("a", 9, 1, pinned=True)], 0)
    assert (stuck.blockers, stuck.pinned) == ((), ("a",))


def test_negative_free_memory_is_compensated() -> None:
    assert place(2, [idle("a", 3, 1), idle("b", 3, 2)], -2).evict == ("a", "b")


def test_use_count_decays_with_its_half_life() -> None:
    assert decayed(4.0, 0) == 4.0
    assert decayed(4.0, 2 * HALF_LIFE) == 1.0
    assert decayed(4.0, 1e12) > 0
    assert reload_seconds(0, 0) == START_SECONDS


sizes = st.integers(0, 6)
residents = st.lists(
    st.builds(
        ResidentModel,
        key=st.uuids().map(str),
        needs=st.builds(MemoryNeeds, sizes, sizes),
        last_used=st.floats(0, 5000),
        uses=st.floats(0.01, 50),
        reload_seconds=st.floats(0.5, 100),
        busy=st.booleans(),
        pinned=st.booleans(),
        kept=st.booleans(),
        is_ending=st.booleans(),
    ),
    max_size=13,
    unique_by=lambda o: o.key,
)


@given(
    wanted=st.builds(MemoryNeeds, sizes, st.integers(0, 20)),
    loaded=residents,
    free=st.builds(MemoryNeeds, st.integers(-5, 9), st.integers(-5, 9)),
)
def test_any_plan_fits_and_evicts_nothing_unnecessarily(
    wanted: MemoryNeeds, loaded: list[ResidentModel], free: MemoryNeeds
) -> None:
    eviction = plan_eviction(wanted, loaded, free)
    by_key = {o.key: o for o in loaded}
    evicted = [by_key[key] for key in eviction.evict]
    evictable = [o for o in loaded if not o.busy and not o.pinned]
    assert all(o in evictable for o in evicted)
    assert eviction.fits == wanted.fits_in(total(free, evictable))
    if eviction.fits:
        assert eviction.free_after == total(free, evicted)
        assert wanted.fits_in(eviction.free_after)
        for spared in evicted:
            assert not wanted.fits_in(total(free, [o for o in evicted if o is not spared]))
        if len(evictable) <= 10:
            fewest = min(
                count_kept(s) for s in subsets(evictable) if wanted.fits_in(total(free, s))
            )
            assert count_kept(evicted) == fewest
        return
    assert eviction.evict == ()
    waiting = [by_key[key] for key in eviction.blockers]
    assert all(o.busy and not o.pinned for o in waiting)
    if waiting:
        assert wanted.fits_in(total(free, [*evictable, *waiting]))
    pinned_blockers = [by_key[key] for key in eviction.pinned]
    assert all(o.pinned for o in pinned_blockers)
    assert bool(waiting or pinned_blockers) == wanted.fits_in(total(free, loaded))


def total(free: MemoryNeeds, residents: list[ResidentModel]) -> MemoryNeeds:
    return sum((o.needs for o in residents), free)


def count_kept(residents: list[ResidentModel]) -> int:
    return sum(o.kept and not o.is_ending for o in residents)


def subsets(residents: list[ResidentModel]) -> list[list[ResidentModel]]:
    counts = range(len(residents) + 1)
    return [list(s) for s in chain.from_iterable(combinations(residents, n) for n in counts)]


@pytest.mark.parametrize("seed", range(20))
def test_plan_for_many_models_is_sufficient_and_spares_what_it_can(seed: int) -> None:
    """Beyond ten models not all sets are tried."""
    chance = random.Random(seed)
    loaded = [
        idle(str(n), chance.randint(1, 9), n, kept=n % 3 == 0, uses=chance.uniform(0.1, 9))
        for n in range(24)
    ]
    wanted = chance.randint(20, 60)
    eviction = place(wanted, loaded, 5)
    evicted = [o for o in loaded if o.key in eviction.evict]
    freed = 5 + sum(o.needs.host for o in evicted)
    assert eviction.fits
    assert freed >= wanted
    assert all(freed - o.needs.host < wanted for o in evicted)
    others = sum(o.needs.host for o in loaded if not o.kept)
    assert count_kept(evicted) == 0 or 5 + others < wanted
