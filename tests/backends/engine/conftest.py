"""Fixtures for engine tests: engines with a KV store, and a paged runner that checks its cache."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch, Sampled, ScheduledChunk, StateStep
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv.paged_cache import PagedCache
from ingle.backends.engine.kv.state_cache import StateCache
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner

GIB = 2**30
MODEL = "ab" * 32
_MASK = 2**64 - 1
_VOCABULARY = 50
_POISON = 0xDEAD_BEEF_DEAD_BEEF


class StoringEngine:
    """An engine with a store behind its KV cache, driven as the worker loop drives it."""

    def __init__(
        self,
        root: Path,
        *,
        context: int = 1024,
        slots: int = 4,
        disk: int = GIB,
        memory: int = GIB,
        spare: int = GIB,
    ) -> None:
        spec = LoadSpec(
            engine="scripted",
            path="",
            context=context,
            slots=slots,
            batch=64,
            script='{"reply": "answer"}',
        )
        self.runner = ScriptedModelRunner(spec)
        self.folder = root / MODEL
        store = KVStoreSpec(folder=str(root), model=MODEL, disk_bytes=disk, memory_bytes=memory)
        self.store = KVStore(store, self.runner.state_key, spare=lambda: spare)
        self.engine = Engine(self.runner, store=self.store)

    def run(self) -> None:
        """Step until no sequence runs, waits, or has a pending fetch."""
        deadline = time.monotonic() + 120
        while self.engine.has_work or self.engine.is_fetching:
            assert time.monotonic() < deadline, "a sequence is stuck"
            if self.engine.has_work:
                self.engine.step()
            else:
                time.sleep(0.0005)

    def ask(self, tokens: list[int], *, max_tokens: int = 3, private: bool = False) -> Sequence:
        """Run one sequence to its end."""
        sequence = Sequence(
            "r", 0, list(tokens), SamplingParams(), max_tokens=max_tokens, private=private
        )
        self.engine.add(sequence)
        self.run()
        return sequence

    def save(self) -> None:
        """Save all cached tokens, as an idle worker does, and wait for removals of old files."""
        deadline = time.monotonic() + 120
        while self.engine.has_unsaved or self._bytes_on_disk() > self.store.disk_bytes:
            assert time.monotonic() < deadline, "saving has no end"
            self.engine.save(0.05)
            time.sleep(0.001)

    def _bytes_on_disk(self) -> int:
        return sum(file.stat().st_size for file in self.files())

    def files(self) -> list[Path]:
        """Return the chunk files on disk."""
        return sorted(self.folder.glob("*.kv"))


MakeEngine = Callable[..., StoringEngine]


@pytest.fixture
def storing(tmp_path: Path) -> Generator[MakeEngine]:
    """Return a factory of engines that share a folder, as successive workers of one model do."""
    engines: list[StoringEngine] = []

    def make(root: Path = tmp_path / "kv", **settings: int) -> StoringEngine:
        engines.append(StoringEngine(root, **settings))
        return engines[-1]

    yield make
    for engine in engines:
        engine.store.close(5)


@pytest.fixture
def chat() -> Callable[[int, int], list[int]]:
    """Return a factory of `length` prompt tokens that are unique to `seed`."""

    def make(seed: int, length: int) -> list[int]:
        return [(seed * 31 + i * 7 + i * i * seed) % 251 for i in range(length)]

    return make


@dataclass
class ChunkWork:
    """What a chunk requested when it was launched."""

    chunk: ScheduledChunk
    start: int
    tokens: list[int]
    table: list[int]

    @classmethod
    def of(cls, chunk: ScheduledChunk) -> ChunkWork:
        sequence, start = chunk.sequence, chunk.sequence.num_launched
        tokens = [*sequence.token_ids[start : start + chunk.count], *chunk.drafts]
        assert len(tokens) == (chunk.num_tokens if chunk.awaits is None else 0)
        return cls(chunk, start, tokens, list(sequence.block_table))


@dataclass
class Launch:
    """A launched batch, and its sampled tokens once it is computed."""

    works: list[ChunkWork]
    sampled: list[Sampled] | None = None


class NumberRunner:
    """A scripted paged model whose KV data of a token depends on the data of all tokens before it.

    One wrong value anywhere in a sequence's pages therefore changes every token that follows. With
    `ahead`, it computes as late as possible: when a batch is collected, or when pages are accessed.
    """

    can_fork = True
    max_drafts = 64
    state_key = "numbers"
    eog = 0

    def __init__(
        self,
        *,
        block_size: int,
        num_blocks: int,
        context: int,
        slots: int = 4,
        batch: int = 64,
        ahead: bool = False,
    ) -> None:
        self.can_run_ahead = ahead
        self.block_size = block_size
        self.num_blocks = num_blocks
        self.context = context
        self.slots = slots
        self.max_batch_tokens = batch
        self.kv_capacity = block_size * num_blocks
        self.numbers = np.full((num_blocks, block_size), _POISON, np.uint64)
        self.copied = 0
        self._launched: deque[Launch] = deque()
        self._drawn: list[int] = []
        self._chance = random.Random(1)

    def adapter_number(self, folder: Path) -> int:
        raise RequestRejected(f"{folder} is an adapter, and there are none here.")

    def drop_adapter(self, folder: Path) -> None:
        """No adapter is ever loaded."""

    def open_cache(self, store: KVStore | None = None) -> PagedCache:
        return PagedCache(self, store)

    def launch(self, batch: Batch) -> None:
        rows = [chunk.sequence.slot for chunk in batch.chunks]
        assert len(set(rows)) == len(rows)
        assert all(0 <= row < self.slots for row in rows)
        if not self.can_run_ahead:
            self._launched.clear()  # a caller of `likeliest` collects nothing
        assert len(self._launched) <= self.can_run_ahead
        assert self._launched or all(chunk.awaits is None for chunk in batch.chunks)
        self._launched.append(Launch([ChunkWork.of(chunk) for chunk in batch.chunks]))
        if not self.can_run_ahead:
            self._catch_up()

    def _catch_up(self) -> None:
        """Compute all launched batches, in order."""
        for launch in self._launched:
            self._run(launch)

    def _run(self, launch: Launch) -> list[Sampled]:
        if launch.sampled is None:
            launch.sampled = [s for work in launch.works for s in self._compute(work)]
            self._drawn = [sampled.token_ids[-1] for sampled in launch.sampled]
        return launch.sampled

    def _compute(self, work: ChunkWork) -> list[Sampled]:
        chunk, start = work.chunk, work.start
        known = work.tokens if chunk.awaits is None else [self._drawn[chunk.awaits]]
        table = np.array(work.table)
        assert len(table) * self.block_size >= start + len(known)
        numbers, follow = self.compute(known, self.numbers[table].reshape(-1)[:start])
        places = np.arange(start, start + len(known))
        self.numbers[table[places // self.block_size], places % self.block_size] = numbers
        if not chunk.samples:
            return []
        sampled: list[int] = []
        for token, draft in zip(follow[chunk.count - 1 :], (*chunk.drafts, None), strict=True):
            sampled.append(token)
            if token != draft:
                break
        return [Sampled(sampled)]

    def compute(self, tokens: list[int], before: NDArray[np.uint64]) -> tuple[list[int], list[int]]:
        """Return the KV data of `tokens` after tokens with data `before`, and the next token."""
        weights = 2 * np.arange(len(before), dtype=np.uint64) + np.uint64(1)
        state = int((before * weights).sum())
        numbers: list[int] = []
        follow: list[int] = []
        for place, token in enumerate(tokens, len(before)):
            number = (state ^ (token + 1) * 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 & _MASK
            number ^= number >> 29
            state = (state + number * (2 * place + 1)) & _MASK
            numbers.append(number)
            follow.append((state ^ state >> 32) * 0x94D049BB133111EB % 2**40 % _VOCABULARY)
        return numbers, follow

    def answer(self, prompt: list[int], most: int) -> list[int]:
        """Return the expected answer to the prompt, computed without pages."""
        nothing = np.empty(0, np.uint64)
        numbers, follow = self.compute(prompt, nothing)
        answer = [follow[-1]]
        while len(answer) < most and answer[-1] != self.eog:
            more, follow = self.compute(answer[-1:], np.array(numbers, np.uint64))
            numbers += more
            answer.append(follow[-1])
        return answer

    def read(self, sequence: Sequence) -> NDArray[np.uint64]:
        """Return the KV data that the sequence sees in its pages."""
        return self.numbers[sequence.block_table].reshape(-1)[: sequence.num_computed]

    def poison(self, pages: Iterable[int]) -> None:
        """Overwrite pages so that any later read of them changes the output.

        Batches that are launched but not computed may still read them, but must not write there.
        """
        free = set(pages)
        assert free.isdisjoint(self.targets)
        for launch in self._launched:
            if launch.sampled is None:
                free.difference_update(*(work.table for work in launch.works))
        self.numbers[list(free)] = _POISON

    @property
    def targets(self) -> set[int]:
        """Return the pages that batches in flight write to."""
        pages: set[int] = set()
        for launch in self._launched:
            for work in launch.works:
                end = work.start + work.chunk.num_tokens
                pages.update(work.table[work.start // self.block_size : -(-end // self.block_size)])
        return pages

    def collect(self) -> list[Sampled]:
        return self._run(self._launched.popleft())

    def collect_likeliest(self) -> list[tuple[int, float]]:
        """Return the tokens of a draft model: sometimes wrong, with varying confidence."""
        chance = self._chance
        return [
            (token if chance.random() < 0.8 else 41, chance.choice([0.2, 0.9, 0.99]))
            for (token,) in (sampled.token_ids for sampled in self._run(self._launched[-1]))
        ]

    def copy_page(self, source: int, target: int, count: int) -> None:
        assert source != target
        assert 0 < count <= self.block_size
        self._catch_up()
        self.numbers[target] = _POISON
        self.numbers[target, :count] = self.numbers[source, :count]
        self.copied += 1

    def read_pages(self, pages: list[int], count: int) -> bytes:
        assert (len(pages) - 1) * self.block_size < count <= len(pages) * self.block_size
        self._catch_up()
        return self.numbers[pages].reshape(-1)[:count].tobytes()

    def write_pages(self, pages: list[int], count: int, data: bytes | memoryview) -> bool:
        if len(data) % 8 or len(data) < 8 * count:
            return False
        self._catch_up()
        for number, page in enumerate(pages):
            part = np.frombuffer(data, np.uint64)[:count][number * self.block_size :]
            self.numbers[page, : len(part)] = part[: self.block_size]
        return True

    def can_follow(self, params: SamplingParams) -> bool:
        return not params.has_penalties

    def is_eog(self, token_id: int) -> bool:
        return token_id == self.eog

    def prepare(self, params: SamplingParams) -> None: ...

    def prepare_step(self) -> bool:
        return False

    def forget(self, sequence: Sequence) -> None: ...

    def close(self) -> None: ...


class StatefulNumberRunner(NumberRunner):
    """A `NumberRunner` that also keeps the sum over a sequence's tokens in rows of a pool.

    A step that begins with a row which has another sum than the tokens' fails.
    """

    max_drafts = 9
    state_bytes = 8
    state_tokens = 1

    def __init__(self, *, snapshots: int = 6, **settings: Any) -> None:
        super().__init__(**settings)
        self.num_states = self.slots + self.max_drafts + snapshots
        self.states = np.full(self.num_states, _POISON, np.uint64)
        self._steps: dict[int, StateStep] = {}

    def open_cache(self, store: KVStore | None = None) -> StateCache:
        return StateCache(self, store)

    def launch(self, batch: Batch) -> None:
        assert len(batch.states) == len(batch.chunks)
        self._steps |= {id(c): s for c, s in zip(batch.chunks, batch.states, strict=True)}
        super().launch(batch)

    def _compute(self, work: ChunkWork) -> list[Sampled]:
        found = super()._compute(work)
        step, numbers = self._steps.pop(id(work.chunk)), self._all_numbers(work.table)
        if step.read is None:
            assert work.start == 0
        else:
            assert int(self.states[step.read]) == _sum(numbers[: work.start])
        assert [tokens for tokens, _ in step.writes] == sorted(t for t, _ in step.writes)
        assert step.writes[-1][0] == work.chunk.num_tokens
        for tokens, row in step.writes:
            self.states[row] = _sum(numbers[: work.start + tokens])
        return found

    def _all_numbers(self, table: list[int]) -> NDArray[np.uint64]:
        return self.numbers[np.array(table)].reshape(-1)

    def copy_state(self, source: int, target: int) -> None:
        self._catch_up()
        assert source != target
        self.states[target] = self.states[source]

    def read_state(self, row: int) -> bytes:
        self._catch_up()
        return self.states[row].tobytes()

    def write_state(self, row: int, data: bytes | memoryview) -> bool:
        self._catch_up()
        if len(data) != 8:
            return False
        self.states[row] = np.frombuffer(data, np.uint64)[0]
        return True


def _sum(numbers: NDArray[np.uint64]) -> int:
    weights = 2 * np.arange(len(numbers), dtype=np.uint64) + np.uint64(1)
    return int((numbers * weights).sum())


@pytest.fixture(scope="session")
def number_runner() -> Callable[..., NumberRunner]:
    """Return a factory of scripted paged models (`NumberRunner`)."""
    return NumberRunner


@pytest.fixture(scope="session")
def stateful_number_runner() -> Callable[..., StatefulNumberRunner]:
    """Return a factory of scripted paged models with states (`StatefulNumberRunner`)."""
    return StatefulNumberRunner
