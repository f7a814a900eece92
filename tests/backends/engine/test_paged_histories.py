"""Stateful test of the paged cache: each sequence sees only its own tokens' KV data."""

from __future__ import annotations

import queue
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ingle.backends.base.load_spec import KVStoreSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch, ScheduledChunk
from ingle.backends.engine.kv.block_manager import Block
from ingle.backends.engine.kv.paged_cache import PagedCache
from ingle.backends.engine.kv_store.kv_chunk_file import StoredPart
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence

SEEDS = st.integers(0, 2**32)
MakeRunner = Callable[..., Any]

_STEMS = [[(seed * 31 + i * 7 + i * i * seed) % 40 for i in range(300)] for seed in range(1, 4)]
_SECRET = 1000
"""Only private sequences have tokens from here on."""


class Histories(RuleBasedStateMachine):
    """A cache, and a scheduler that takes its actions in any order.

    Two batches may be in flight at a time; the second awaits the tokens sampled by the first.
    """

    def __init__(self, make_runner: MakeRunner) -> None:
        super().__init__()
        self._make_runner = make_runner
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.leaving: list[Sequence] = []
        self.ended: list[Sequence] = []
        self.flights: deque[Batch] = deque()
        self.numbers: dict[Sequence, list[int]] = {}
        self.store: KVStore | None = None

    @initialize(size=st.sampled_from([4, 8, 16, 32]), pages=st.integers(2, 24), tier=st.booleans())
    def begin(self, size: int, pages: int, tier: bool) -> None:
        self.size = size
        self.runner = self._make_runner(
            block_size=size, num_blocks=pages, context=pages * size, slots=4, ahead=True
        )
        if tier:
            spec = KVStoreSpec(folder="", model="ab" * 32, disk_bytes=0, memory_bytes=2**20)
            self.store = KVStore(spec, "numbers", spare=lambda: 2**20)
        cache = self.runner.open_cache(self.store)
        assert isinstance(cache, PagedCache)
        self.cache = cache

    @rule(seed=SEEDS, private=st.booleans())
    def arrive(self, seed: int, private: bool) -> None:
        """Add a prompt that shares a prefix with others."""
        chance = random.Random(seed)
        stem = chance.choice(_STEMS)[: chance.randrange(self.runner.context)]
        self._arrive(stem + self._own(chance, private=private), private=private)

    @precondition(lambda self: self.ended)
    @rule(seed=SEEDS)
    def come_back(self, seed: int) -> None:
        """Add the next turn of an ended sequence, or an edit of it."""
        chance = random.Random(seed)
        before = chance.choice(self.ended)
        private = before.private or chance.random() < 0.3
        tokens = before.token_ids
        if chance.random() < 0.5:
            tokens = tokens[: chance.randrange(len(tokens))]
        self._arrive(tokens + self._own(chance, private=private), private=private)

    def _own(self, chance: random.Random, *, private: bool) -> list[int]:
        secret = _SECRET if private else 0
        return [secret + chance.randrange(40) for _ in range(chance.randrange(1, 12))]

    @precondition(lambda self: self.running)
    @rule(seed=SEEDS)
    def branch(self, seed: int) -> None:
        """Add another choice for a prompt that is being prefilled or answered."""
        parent = random.Random(seed).choice(self.running)
        prompt = parent.token_ids[: parent.prompt_length]
        self._arrive(prompt, private=parent.private, parent=parent)

    def _arrive(self, tokens: list[int], *, private: bool, parent: Sequence | None = None) -> None:
        if len(tokens) < self.runner.context and len(self.waiting) < 5:
            sequence = Sequence("r", 0, tokens, SamplingParams(), private=private, parent=parent)
            self.waiting.append(sequence)

    @precondition(lambda self: self.waiting and len(self.present) < 4)
    @rule(seed=SEEDS, least=st.sampled_from([1, 32]), fetches=st.booleans())
    def open(self, seed: int, least: int, fetches: bool) -> None:
        sequence = random.Random(seed).choice(self.waiting)
        tokens = np.array(sequence.token_ids, np.int32)
        prefix = self.cache.match(tokens, least)
        assert prefix.length < len(tokens)
        pending = sum(self.cache.growth(other, other.num_pending) for other in self.present)
        missing = pending + self.cache.room(len(tokens)) - prefix.active - self.cache.available
        if self.present and missing > 0:
            return
        if fetches and self.store is not None:
            read: queue.SimpleQueue[list[StoredPart]] = queue.SimpleQueue()
            self.store.fetch(tokens[:-1], prefix.length - prefix.length % 256, read.put)
            sequence.stored = read.get(timeout=10)
        self.cache.open(sequence, prefix)
        self.waiting.remove(sequence)
        self.running.append(sequence)
        if not sequence.stored:
            assert sequence.num_computed < len(tokens)

    @property
    def present(self) -> list[Sequence]:
        return [*self.running, *self.leaving]

    def _may_continue(self, sequence: Sequence) -> bool:
        if not sequence.num_awaited:
            return True
        known = len(sequence.token_ids) + sequence.num_awaited
        return not sequence.private and known < self.runner.context

    @precondition(
        lambda self: (
            self.running
            and not (self.flights and (len(self.flights) > 1 or self.flights[0].has_drafts))
        )
    )
    @rule(seed=SEEDS)
    def launch(self, seed: int) -> None:
        """Launch some of the running sequences, as far as there is room."""
        chance = random.Random(seed)
        batch, room, drafts = Batch(), self.cache.available, self.runner.max_drafts
        for sequence in filter(self._may_continue, self.running):
            most = self.cache.most([sequence], room)
            count = min(chance.choice([0, 1, 30, 300, 300]), sequence.num_pending, most)
            if not count:
                continue
            draft: tuple[int, ...] = ()
            if count == sequence.num_pending and not self.flights:
                draft = self._draft(chance, sequence, min(most - count, drafts))
            drafts -= len(draft)
            room -= self.cache.growth(sequence, count + len(draft))
            batch.add(sequence, count, draft)
        assert room >= 0
        self.cache.reserve(batch)
        self._check_targets(batch)
        self.runner.launch(batch)
        batch.mark_launched()
        self.flights.append(batch)

    @precondition(lambda self: self.flights)
    @rule(seed=SEEDS)
    def collect(self, seed: int) -> None:
        """Collect the oldest launched batch."""
        chance, batch = random.Random(seed), self.flights.popleft()
        results = iter(self.runner.collect())
        batch.complete()
        for chunk in batch.chunks:
            sampled: list[int] = next(results).token_ids if chunk.samples else []
            if chunk.sequence in self.leaving:
                if chunk.awaits is None:
                    self.cache.grow(chunk.sequence, chunk.count)
                self._release(chunk.sequence)
            else:
                self._record(chance, chunk, sampled)

    def _draft(self, chance: random.Random, sequence: Sequence, most: int) -> tuple[int, ...]:
        left = self.runner.context - len(sequence.token_ids) - 1
        length = min(chance.randrange(10), most, left)
        if length < 1:
            return ()
        draft = self.runner.answer(sequence.token_ids, length)
        if chance.random() < 0.6:
            draft[chance.randrange(len(draft))] = 41
        return tuple(draft)

    def _record(self, chance: random.Random, chunk: ScheduledChunk, sampled: list[int]) -> None:
        sequence = chunk.sequence
        # An answer may end in the middle of the sampled tokens.
        kept = sampled[: chance.randint(1, len(sampled))] if sampled else []
        if kept and sequence.private:  # the last one is not computed yet
            kept[-1] += _SECRET
        sequence.token_ids += kept
        self.cache.grow(sequence, chunk.count + max(len(kept) - 1, 0))
        if chunk.drafts and len(kept) <= len(chunk.drafts):
            self.cache.trim(sequence)
        if len(sequence.token_ids) >= self.runner.context:
            self._end(sequence)

    @precondition(lambda self: self.running)
    @rule(seed=SEEDS)
    def end(self, seed: int) -> None:
        self._end(random.Random(seed).choice(self.running))

    def _end(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.leaving.append(sequence)
        self._release(sequence)
        self.ended = [*self.ended[-5:], sequence]

    def _release(self, sequence: Sequence) -> None:
        if not sequence.num_in_flight:
            self.leaving.remove(sequence)
            self.cache.keep(sequence)

    @precondition(lambda self: self.running and not self.flights)
    @rule(seed=SEEDS)
    def preempt(self, seed: int) -> None:
        sequence = random.Random(seed).choice(self.running)
        self.running.remove(sequence)
        self.cache.keep(sequence)
        self.waiting.append(sequence)

    @precondition(lambda self: self.waiting)
    @rule(seed=SEEDS)
    def leave(self, seed: int) -> None:
        self.waiting.remove(random.Random(seed).choice(self.waiting))

    @rule(count=st.integers(1, 9))
    def give_up(self, count: int) -> None:
        for _ in range(count):
            kept = self.cache.kept
            assert self.cache.evict_oldest() == (kept > 0)

    @invariant()
    def every_sequence_sees_its_own_tokens(self) -> None:
        if not hasattr(self, "cache"):
            return
        self.runner.poison(self.cache.pages.free_blocks)
        for sequence in self.present:
            expected = self._numbers(sequence)[: sequence.num_computed]
            assert self.runner.read(sequence).tolist() == expected

    @invariant()
    def every_page_has_one_owner(self) -> None:
        if not hasattr(self, "cache"):
            return
        pages = self.cache.pages
        tree = _walk(pages.root)
        free = list(pages.free_blocks)
        users: dict[int, int] = {}
        own: list[int] = []
        for sequence in self.present:
            full = sequence.num_computed // self.size
            draft = [c.drafts for b in self.flights for c in b.chunks if c.sequence is sequence]
            covered = -(-(sequence.num_launched + sum(map(len, draft))) // self.size)
            if sequence in self.leaving:  # its sampled tokens are not recorded
                assert len(sequence.block_table) >= covered
            else:
                assert len(sequence.block_table) == covered
            own += sequence.block_table[full:]
            for index in sequence.block_table[:full]:
                users[index] = users.get(index, 0) + 1
        everything = sorted([*free, *own, *(page.index for page in tree)])
        assert everything == list(range(pages.num_blocks)), "a page is lost, or in two places"
        for page in tree:
            assert page.ref_count == users.get(page.index, 0)
            assert page.parent is not None
            assert page.parent is pages.root or page.parent.ref_count >= page.ref_count
            assert page.end == page.parent.end + page.count
            assert page.count == self.size or not (page.children or page.ref_count)
        assert pages.num_cached == sum(page.ref_count == 0 for page in tree)
        assert self.cache.used == self.size * (len(own) + sum(page.ref_count > 0 for page in tree))
        assert self.cache.used + self.cache.kept + self.size * len(free) == self.cache.capacity
        assert len({sequence.slot for sequence in self.present}) == len(self.present)
        assert self.runner.targets.isdisjoint([*free, *(page.index for page in tree)])

    @invariant()
    def private_tokens_are_not_stored(self) -> None:
        store: Any = self.store
        if store is not None:
            assert all(int(chunk.tokens.max()) < _SECRET for chunk in store._tree)

    def _check_targets(self, batch: Batch) -> None:
        """Check that no batch writes to a page that another sequence has or may get."""
        shared = {page.index for page in _walk(self.cache.pages.root)}
        shared.update(self.cache.pages.free_blocks)
        for chunk in batch.chunks:
            table, first = chunk.sequence.block_table, chunk.sequence.num_launched // self.size
            others = (s.block_table for s in self.present if s is not chunk.sequence)
            assert shared.union(*others).isdisjoint(table[first:])

    def _numbers(self, sequence: Sequence) -> list[int]:
        known = self.numbers.setdefault(sequence, [])
        more = sequence.token_ids[len(known) :]
        known += self.runner.compute(more, np.array(known, np.uint64))[0] if more else []
        return known

    def teardown(self) -> None:
        if hasattr(self, "cache"):
            for sequence in list(self.running):
                self._end(sequence)
            while self.flights:
                self.collect(0)
            assert not self.present
            while self.cache.evict_oldest():
                pass
            assert self.cache.used == self.cache.kept == 0
            assert sorted(self.cache.pages.free_blocks) == list(range(self.runner.num_blocks))
        if self.store is not None:
            self.private_tokens_are_not_stored()
            self.store.close(5)


def _walk(root: Block) -> list[Block]:
    pages = list(root.children.values())
    for page in pages:  # grows during the loop
        pages.extend(page.children.values())
    return pages


@pytest.mark.parametrize(
    "examples", [150, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_random_histories_keep_every_page_consistent(
    number_runner: MakeRunner, examples: int
) -> None:
    class Bound(Histories):
        def __init__(self) -> None:
            super().__init__(number_runner)

    run_state_machine_as_test(
        Bound,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
