"""The page map (`engine.page_map()`) matches the state of the KV caches at every step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ingle.backends.base.events import FinishReason
from ingle.backends.base.kv_page_map import KVPageGroup, KVPageMap
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv.block_manager import Block
from ingle.backends.engine.kv.cell_cache import CellCache
from ingle.backends.engine.kv.page_map import MOST, merge_traces, remember
from ingle.backends.engine.kv.paged_cache import PagedCache
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.adaptive_speculator import AdaptiveSpeculator
from ingle.backends.engine.speculation.ngram_drafter import NgramDrafter
from ingle.backends.engine.speculation.step_costs import StepCosts
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner

MakeRunner = Callable[..., Any]
Prefix = tuple[int, ...]

_STEMS = [[(seed * 31 + i * 7 + i * i * seed) % 40 + 1 for i in range(300)] for seed in (1, 2, 3)]
_LABELS = ("", "a", "b", "b@1", "c")
_FREE = KVPageGroup(conversations=[], running=False, tokens=0, idle_seconds=0.0)


class Recorder:
    """An engine under random requests, recording which sequence computed which prefix."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.cache = engine.scheduler.kv
        self.chance = random.Random(seed)
        self.requests: list[Sequence] = []
        self.passed: dict[Prefix, set[str]] = {}
        self.frames = 0
        keep = self.cache.keep

        def keep_and_note(sequence: Sequence) -> None:
            self._note(sequence)
            keep(sequence)

        self.cache.keep = keep_and_note

    def _note(self, sequence: Sequence) -> None:
        tokens = tuple(sequence.token_ids[: sequence.num_computed])
        for end in range(1, len(tokens) + 1):
            self.passed.setdefault(tokens[:end], set()).add(sequence.conversation)

    @property
    def present(self) -> list[Sequence]:
        """Return sequences that hold cells, including ended ones with a batch in flight."""
        return [sequence for sequence in self.requests if sequence.slot >= 0]

    def run(self, arrivals: int) -> Iterator[KVPageMap]:
        """Yield the map after every step."""
        while arrivals or self.engine.has_work:
            if arrivals and self.chance.random() < 0.3:
                arrivals -= 1
                for sequence in self._arrive():
                    self.requests.append(sequence)
                    self.engine.add(sequence)
            if self.requests and self.chance.random() < 0.05:
                self.engine.finish(self.chance.choice(self.requests), FinishReason.CANCELLED)
            if self.chance.random() < 0.05:
                self.cache.evict_oldest()
            if self.engine.has_work:
                self.engine.step()
            for sequence in self.present:
                self._note(sequence)
            self.frames += 1
            yield self.engine.page_map()

    def _arrive(self) -> Iterator[Sequence]:
        """Add a new chat, the next turn or a branch of one, or a turn of another conversation."""
        chance, context = self.chance, self.engine.runner.context
        ended = [s for s in self.requests if s.finish_reason is not None]
        label = chance.choice(_LABELS)
        if ended and chance.random() < 0.6:
            before = chance.choice(ended)
            tokens = before.token_ids[: chance.choice([len(before.token_ids), 40, 70])]
            label = before.conversation if chance.random() < 0.7 else label
        else:
            tokens = chance.choice(_STEMS)[: chance.randrange(20, 120)]
        tokens = [*tokens[: context - 60], *(chance.randrange(1, 41) for _ in range(20))]
        parent: Sequence | None = None
        for index in range(chance.choice([1, 1, 2])):
            most = chance.randrange(1, 40)
            sequence = Sequence("r", index, list(tokens), SamplingParams(), most, parent=parent)
            sequence.conversation = label
            sequence.priority = chance.choice(list(Priority))
            parent = parent or sequence
            yield sequence


def expanded(page_map: KVPageMap) -> list[KVPageGroup]:
    """Return the group of each page; `_FREE` for free ones."""
    groups = [
        _FREE if number < 0 else page_map.groups[number]
        for number, count in page_map.runs
        for _ in range(count)
    ]
    assert len(groups) == page_map.pages
    neighbours = zip(page_map.runs, page_map.runs[1:], strict=False)
    assert all(left[0] != right[0] for left, right in neighbours), "two runs that are one"
    stories = [(tuple(g.conversations), g.running, g.idle_seconds) for g in page_map.groups]
    assert all(conversations and len(conversations) <= MOST for conversations, _, _ in stories)
    assert all(group.idle_seconds == 0.0 for group in page_map.groups if group.running)
    return groups


def tree_of(page: Block, before: Prefix = ()) -> Iterator[tuple[Block, Prefix]]:
    """Return all pages below this one, each with the tokens up to its end."""
    for child in page.children.values():
        tokens = (*before, *memoryview(child.tokens).cast("i").tolist())
        yield child, tokens
        yield from tree_of(child, tokens)


def check_pages(recording: Recorder, page_map: KVPageMap) -> None:
    """Check every page of a pool."""
    cache, running = recording.cache, recording.present
    assert isinstance(cache, PagedCache)
    size, groups = cache.pages.block_size, expanded(page_map)
    assert page_map.page_tokens * page_map.pages == cache.capacity
    totals: Counter[int] = Counter()
    free = set(cache.pages.free_blocks)
    in_tree: set[int] = set()
    for page, tokens in tree_of(cache.pages.root):
        group = groups[page.index]
        in_tree.add(page.index)
        users = {s.conversation for s in running if page.index in s.block_table}
        assert group.running == bool(users)
        assert users <= set(group.conversations)
        # A conversation that used the whole page is in its trace; one that used a part may be.
        started = set[str]().union(*(recording.passed[tokens[:end]] for end in ends(page, size)))
        assert set(group.conversations) <= started
        if page.count == size:
            assert recording.passed[tokens] & set(group.conversations)
        totals[id(group)] += page.count
    for sequence in running:
        own = [p for p in sequence.block_table if p not in in_tree]
        for index in own:
            assert groups[index].running
            assert groups[index].conversations[0] == sequence.conversation
        if own:
            totals[id(groups[own[0]])] += sequence.num_computed % size
            in_tree.update(own)
    assert all(group is _FREE for index, group in enumerate(groups) if index in free)
    assert free.isdisjoint(in_tree)
    assert len(free) + len(in_tree) == page_map.pages
    assert all(group.tokens == totals[id(group)] for group in page_map.groups)
    assert page_map.evicted_pages_total == cache.pages.num_evicted


def ends(page: Block, size: int) -> range:
    """Return the lengths of prefixes that end in the page."""
    first = (page.end - 1) // size * size
    return range(first + 1, page.end + 1)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]
)
def test_page_map_matches_the_paged_cache_at_every_step(
    number_runner: MakeRunner, seed: int
) -> None:
    ahead = seed % 2 == 0
    runner = number_runner(block_size=8, num_blocks=40, context=200, slots=4, batch=32, ahead=ahead)
    engine = Engine(runner)
    recording = Recorder(engine, seed)
    for page_map in recording.run(40):
        check_pages(recording, page_map)
    assert recording.frames > 100
    assert engine.scheduler.preemptions > 0
    assert engine.page_map().evicted_pages_total > 0


def check_cells(recording: Recorder, page_map: KVPageMap) -> None:
    """Check every page of cells, cell by cell."""
    assert isinstance(recording.cache, CellCache)
    cache: Any = recording.cache
    groups = expanded(page_map)
    stories: list[dict[str, None]] = [{} for _ in range(cache.capacity)]
    runs = [False] * cache.capacity
    left: list[float] = [0.0] * cache.capacity
    slots: list[tuple[Any, bool]] = [(s, True) for s in cache._held.values()]
    slots += [(s, False) for s in cache._kept.values()]
    slots.sort(key=lambda slot: (slot[1], slot[0].left_at), reverse=True)
    for slot, held in slots:
        cells: list[int] = slot.cells[: slot.length].tolist()
        for position, cell in enumerate(cells):
            trace: tuple[str, ...] = next(
                t for start, t in reversed(slot.traces) if start <= position
            )
            prefix = tuple(slot.tokens[: position + 1].tolist())
            assert set(trace) <= recording.passed[prefix]
            stories[cell].update(dict.fromkeys(trace))
            runs[cell] = runs[cell] or held
            left[cell] = max(left[cell], slot.left_at)
    kinds: list[tuple[tuple[str, ...], bool, float]] = [
        (tuple(story), run, 0.0 if run else at)
        for story, run, at in zip(stories, runs, left, strict=True)
    ]
    nothing = ((), False, 0.0)
    for number, group in enumerate(groups):
        shares = Counter(kinds[number * 32 : number * 32 + 32])
        del shares[nothing]
        most = {kind[:2] for kind, count in shares.items() if count == max(shares.values())}
        assert (group is _FREE) == (not most)
        assert group is _FREE or (tuple(group.conversations), group.running) in most
    counted = Counter(kinds)
    del counted[nothing]
    totals = [(tuple(g.conversations), g.running, g.tokens) for g in page_map.groups]
    assert Counter(totals) == Counter((*kind[:2], count) for kind, count in counted.items())
    assert sum(g.tokens for g in page_map.groups if g.running) == cache.used
    assert sum(g.tokens for g in page_map.groups if not g.running) == cache.kept


@pytest.mark.parametrize(
    ("seed", "can_fork"),
    [
        (1, True),
        pytest.param(2, True, marks=pytest.mark.slow),
        pytest.param(3, True, marks=pytest.mark.slow),
        (4, False),
    ],
)
def test_page_map_matches_the_cell_cache_at_every_step(seed: int, can_fork: bool) -> None:
    spec = LoadSpec(
        engine="scripted",
        path="",
        context=200,
        kv_capacity=500,
        slots=3,
        batch=32,
        script='{"reply": "an answer to all questions"}',
    )
    runner = ScriptedModelRunner(spec)
    runner.can_fork = can_fork
    speculator = AdaptiveSpeculator(
        context=200, costs=StepCosts(), ngrams=NgramDrafter(200), model=None
    )
    engine = Engine(runner, speculator if can_fork else None)
    recording = Recorder(engine, seed)
    for page_map in recording.run(40):
        check_cells(recording, page_map)
    assert recording.frames > 100
    assert engine.scheduler.preemptions > 0 or not can_fork
    assert engine.page_map().evicted_pages_total > 0


def test_page_map_of_an_empty_cache_is_one_free_run() -> None:
    spec = LoadSpec(engine="scripted", path="", context=70, script='{"reply": "a"}')
    page_map = Engine(ScriptedModelRunner(spec)).page_map()
    assert page_map == KVPageMap(
        page_tokens=32,
        pages=3,
        groups=[],
        runs=[(-1, 3)],
        memory_tokens=0,
        disk_tokens=0,
        evicted_pages_total=0,
    )


def test_shared_group_lists_all_conversations() -> None:
    spec = LoadSpec(engine="scripted", path="", context=512, script='{"reply": "abc"}')
    engine = Engine(ScriptedModelRunner(spec))
    stem = list(range(64))
    for label, rest in (("first", [70] * 32), ("second", [80] * 32), ("first@1", [90] * 32)):
        sequence = Sequence("r", 0, stem + rest, SamplingParams(), 1, conversation=label)
        engine.add(sequence)
        while engine.has_work:
            engine.step()
    groups = engine.page_map().groups
    totals = {tuple(sorted(g.conversations)): g.tokens for g in groups}
    assert totals == {
        ("first", "first@1", "second"): 64,
        ("first",): 32,
        ("second",): 32,
        ("first@1",): 32,
    }
    (shared,) = (g for g in groups if g.tokens == 64)
    assert shared.conversations[0] == "first@1"


def test_trace_keeps_the_most_recent_conversations() -> None:
    trace = ("b", "a")
    assert remember(trace, "b") is trace
    assert remember(trace, "a") == ("a", "b")
    assert merge_traces(("c", "a"), trace) == ("c", "a", "b")
    for number in range(3 * MOST):
        trace = remember(trace, str(number))
    assert trace == tuple(str(number) for number in range(3 * MOST - 1, 2 * MOST - 1, -1))
