"""The step loop over a paged KV cache under random load: every text equals that of a run alone."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import KVStoreSpec
from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv.paged_cache import PagedCache
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.draft import Speculator
from ingle.backends.engine.speculation.model_drafter import ModelDrafter

MakeRunner = Callable[..., Any]
GIB = 2**30
MODEL = "ab" * 32


class RandomSpeculator:
    """Proposes right, wrong, long, short and no drafts at random."""

    def __init__(self, runner: Any, seed: int) -> None:
        self._runner = runner
        self._random = random.Random(seed)

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        drafts: dict[Sequence, tuple[int, ...]] = {}
        for sequence in decoding:
            left = self._runner.context - len(sequence.token_ids) - 1
            length = self._random.randrange(max(min(room, left, 12), 0) + 1)
            if not length:
                continue
            draft = self._runner.answer(sequence.token_ids, length)
            if self._random.random() < 0.6:
                draft[self._random.randrange(len(draft))] = 41
            room -= len(draft)
            drafts[sequence] = tuple(draft)
        return drafts

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        assert 0 < room <= self._runner.max_drafts
        return self._random.random() < 0.5

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


class AlwaysDrafting:
    """Proposes all tokens of a draft model, whether it pays or not."""

    def __init__(self, drafter: ModelDrafter, seed: int) -> None:
        self._drafter = drafter
        self._random = random.Random(seed)

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        some = [sequence for sequence in decoding if self._random.random() < 0.8]
        ready = [sequence for sequence in some if self._drafter.catch_up(sequence)]
        depth = min(self._random.randrange(6), room // max(len(ready), 1))
        drafts = self._drafter.draft(ready, depth)
        return {sequence: tuple(draft.tokens) for sequence, draft in drafts.items()}

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return self._random.random() < 0.5

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None:
        self._drafter.forget(sequence)


@dataclass(frozen=True)
class Arrival:
    """One request: a shared stem and how much of it is used, its own tokens, and its options."""

    at: int
    stem: int
    common: int
    own: int
    most: int
    choices: int
    priority: Priority
    private: bool
    penalised: bool
    cancelled_at: int | None


ARRIVALS = st.builds(
    Arrival,
    at=st.integers(0, 40),
    stem=st.integers(0, 2),
    common=st.integers(0, 300),
    own=st.integers(1, 20),
    most=st.integers(1, 60),
    choices=st.integers(1, 3),
    priority=st.sampled_from(Priority),
    private=st.booleans(),
    penalised=st.integers(0, 5).map(lambda number: number == 0),
    cancelled_at=st.one_of(st.none(), st.integers(0, 80)),
)


class Workload:
    """An engine over pages, with requests that arrive and leave between its steps."""

    def __init__(self, engine: Engine, arrivals: list[Arrival]) -> None:
        self.engine = engine
        self.runner: Any = engine.runner
        self.flown = 0
        self.groups: list[tuple[Arrival, list[Sequence]]] = []
        for number, arrival in enumerate(arrivals):
            stem = [(arrival.stem * 31 + i * 7 + i * i) % 40 for i in range(arrival.common)]
            prompt = stem[: self.runner.context - 21] + [number % 40] * arrival.own
            parent: Sequence | None = None
            group: list[Sequence] = []
            for index in range(arrival.choices):
                sampling = SamplingParams(repeat_penalty=1.1 if arrival.penalised else 1.0)
                sequence = Sequence("r", index, list(prompt), sampling, arrival.most)
                sequence.priority, sequence.private = arrival.priority, arrival.private
                sequence.parent = parent
                parent = parent or sequence
                group.append(sequence)
            self.groups.append((arrival, group))

    def run(self) -> None:
        deadline = time.monotonic() + 60
        step, idle = 0, False
        while not (idle and step > 80):
            assert time.monotonic() < deadline, "a request starves"
            for arrival, group in self.groups:
                if arrival.at == step:
                    for sequence in group:
                        self.engine.add(sequence)
                if arrival.cancelled_at is not None and step == max(
                    arrival.at, arrival.cancelled_at
                ):
                    self.engine.finish(group[0], FinishReason.CANCELLED)
            if self.engine.has_work:
                self.engine.step()
                self.check()
            elif self.engine.is_fetching:
                time.sleep(0.0001)
                continue
            idle = not self.engine.has_work and not self.engine.is_fetching
            step += 1

    def check(self) -> None:
        cache = self.engine.scheduler.kv
        assert isinstance(cache, PagedCache)
        free = list(cache.pages.free_blocks)
        assert cache.used + cache.kept + len(free) * self.runner.block_size == cache.capacity
        present = [s for _, group in self.groups for s in group if s.slot >= 0]
        assert set(self.engine.scheduler.running) <= set(present)
        assert (
            sum(map(len, (s.block_table for s in present))) * self.runner.block_size >= cache.used
        )
        self.runner.poison(free)
        self.flown += any(s.num_in_flight for s in present)

    def check_results(self) -> None:
        """Check each output against a run alone, and that no page is leaked."""
        sequences = [sequence for _, group in self.groups for sequence in group]
        generated = sum(sequence.num_generated for sequence in sequences)
        assert self.engine.gauges().completion_tokens_total == generated
        assert not any(s.num_in_flight or s.num_awaited for s in sequences)
        assert self.engine.drain() == []
        for _, group in self.groups:
            prompt = group[0].token_ids[: group[0].prompt_length]
            most = min(group[0].max_tokens or 0, self.runner.context - len(prompt))
            expected = self.runner.answer(prompt, most)
            for sequence in group:
                generated = sequence.token_ids[len(prompt) :]
                if sequence.finish_reason is FinishReason.CANCELLED:
                    assert generated == expected[: len(generated)]
                else:
                    assert generated == expected
        assert self.engine.scheduler.kv.used == 0
        while self.engine.scheduler.kv.evict_oldest():
            pass
        assert self.engine.scheduler.kv.kept == 0


@pytest.mark.parametrize(
    "examples", [60, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_output_under_random_load_equals_each_request_alone(
    number_runner: MakeRunner, examples: int
) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        arrivals=st.lists(ARRIVALS, min_size=1, max_size=12),
        size=st.sampled_from([4, 16, 32]),
        room=st.integers(3, 24),
        slots=st.integers(1, 5),
        batch=st.integers(1, 80),
        seed=st.integers(0, 1000),
        drafts=st.sampled_from(["none", "none", "random", "model"]),
        tier=st.booleans(),
        ahead=st.booleans(),
    )
    def run_load(
        arrivals: list[Arrival],
        size: int,
        room: int,
        slots: int,
        batch: int,
        seed: int,
        drafts: str,
        tier: bool,
        ahead: bool,
    ) -> None:
        context = max(room * 16, 40) // size * size
        sizes = {"block_size": size, "num_blocks": context // size, "context": context}
        runner = number_runner(**sizes, slots=slots, batch=batch, ahead=ahead)
        speculator: Speculator | None = None
        drafter: Any = None
        if drafts == "random":
            speculator = RandomSpeculator(runner, seed)
        elif drafts == "model":
            drafter = ModelDrafter(number_runner(**sizes, slots=slots, batch=batch))
            speculator = AlwaysDrafting(drafter, seed)
        store = _memory_store() if tier else None
        try:
            game = Workload(Engine(runner, speculator, store), arrivals)
            game.run()
            game.check_results()
            assert ahead or not game.flown
            assert drafter is None or drafter._kv.used == 0
        finally:
            if store is not None:
                store.close(5)

    run_load()


def _memory_store() -> KVStore:
    spec = KVStoreSpec(folder="", model=MODEL, disk_bytes=0, memory_bytes=GIB)
    return KVStore(spec, "numbers", spare=lambda: GIB)


MakeLife = Callable[[], tuple[Engine, KVStore]]


@pytest.fixture
def restart(number_runner: MakeRunner, tmp_path: Path) -> Generator[MakeLife]:
    """Return a factory of engines that share a folder, as successive workers of one model do."""
    stores: list[KVStore] = []

    def make() -> tuple[Engine, KVStore]:
        runner = number_runner(block_size=32, num_blocks=64, context=1024)
        spec = KVStoreSpec(folder=str(tmp_path), model=MODEL, disk_bytes=GIB, memory_bytes=GIB)
        stores.append(KVStore(spec, runner.state_key, spare=lambda: GIB))
        return Engine(runner, store=stores[-1]), stores[-1]

    yield make
    for store in stores:
        store.close(5)


def _ask(engine: Engine, prompt: list[int], *, private: bool = False) -> Sequence:
    sequence = Sequence("r", 0, list(prompt), SamplingParams(), 5, private=private)
    sequence.ignore_eos = True
    engine.add(sequence)
    while engine.has_work or engine.is_fetching:
        engine.step()
    return sequence


def _save(engine: Engine) -> None:
    deadline = time.monotonic() + 120
    while engine.has_unsaved:
        assert time.monotonic() < deadline, "saving has no end"
        engine.save(0.05)
        time.sleep(0.001)


def test_restarted_engine_restores_from_disk(restart: MakeLife, tmp_path: Path) -> None:
    engine, store = restart()
    runner: Any = engine.runner
    prompt = [i * i % 40 for i in range(700)]
    first = _ask(engine, prompt)
    secret = _ask(engine, [39 - token for token in prompt], private=True)
    _ask(engine, prompt[200:300])
    _save(engine)
    assert len(list((tmp_path / MODEL).glob("*.kv"))) == 3, "256, 256 and 192 tokens"
    store.close(5)
    engine, _ = restart()
    turn = [*first.token_ids, 1, 2, 3]
    second = _ask(engine, turn)
    assert second.cached_tokens == 704
    expected = runner.answer(turn, 5)
    assert second.token_ids[len(turn) :][: len(expected)] == expected
    assert _ask(engine, secret.token_ids).cached_tokens == 0
    edited = turn[:600] + [7] * 9
    engine, _ = restart()
    assert _ask(engine, edited).cached_tokens == 600, "part of a chunk is enough"
