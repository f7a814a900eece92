"""`KVStore` decides as recorded: what it stores, where, evicts, writes and finds again.

A deliberate change of a decision is recorded anew: delete `recorded_store.txt` and run this file.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ingle.backends.base.load_spec import KVStoreSpec
from ingle.backends.engine.kv_store.disk_tier import KVDisk
from ingle.backends.engine.kv_store.kv_chunk_file import StoredPart
from ingle.backends.engine.kv_store.kv_store import KVStore
from tests.harness.recorded_lines import assert_recorded

RECORDED = Path(__file__).with_name("recorded_store.txt")
MODEL = "ab" * 32
SEEDS = 5
LAST = bytes(32)
"""A key of no chunk, removed last."""


class Recording:
    """A store that is used at random, one use after the other, and what it did."""

    def __init__(self, root: Path, seed: int) -> None:
        self.lines = [f"# {seed}"]
        self.written = threading.Event()
        self._chance = random.Random(seed)
        self._limits = self._chance.choice(
            [(12_000, 5_000), (40_000, 3_000), (9_000, 0), (0, 7_000)]
        )
        self._root = root
        self._spare = 10**6
        self._chats = [np.empty(0, np.int32)] * 4
        self._store = self._open()

    def run(self, uses: int) -> None:
        """Use the store so many times, and close it."""
        for number in range(uses):
            which = self._chance.randrange(len(self._chats))
            self._chats[which] = self._continued(which, number)
            self.lines += self._use(which)
            self.lines.append(f"  {self._state()}")
        self._store.close(20)

    def _continued(self, which: int, number: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """The conversation, perhaps shorter, or the beginning of another, and new tokens."""
        kept = self._chats[self._chance.choice([which, which, which, 0])]
        kept = kept[: self._chance.choice([0, 255, 256, 600, 2000, 2000, 2000, 2000])]
        added = self._chance.choice([0, 1, 31, 32, 33, 100, 256, 300])
        return np.concatenate([kept, np.full(added, number, np.int32)])

    def _use(self, which: int) -> Iterator[str]:
        store, tokens = self._store, self._chats[which]
        yield f"{which} {len(tokens)} {store.match(tokens)} {store.may_hold(len(tokens))}"
        match self._chance.randrange(16):
            case 0:
                yield "restart"
                store.close(20)
                self._store = self._open()
            case 1:
                store.flush()
                yield "flush"
            case 2:
                store.trim()
                yield "trim"
            case 3:
                self._spare = self._chance.choice([-1, 500, 10**6])
                yield f"spare {self._spare}"
            case 4:
                start = self._chance.choice([0, 256, 512])
                store.reject(tokens, start)
                yield f"reject {start}"
            case 5 | 6 | 7:
                start = self._chance.choice([0, 0, 256])
                yield f"fetch {start} {self._fetched(tokens, start)}"
            case _:
                to_disk = self._chance.random() < 0.4
                for start, end in store.missing(tokens, to_disk=to_disk):
                    data = bytes((start + i) % 256 for i in range(2 * (end - start)))
                    took = store.put(tokens, start, end, data, to_disk=to_disk)
                    self._settle()
                    yield f"put {start} {end} {to_disk} {took}"

    def _fetched(self, tokens: np.ndarray[tuple[int], np.dtype[np.int32]], start: int) -> str:
        read: list[StoredPart] = []
        ended = threading.Event()

        def done(parts: list[StoredPart]) -> None:
            read.extend(parts)
            ended.set()

        self._store.fetch(tokens, start, done)
        assert ended.wait(20)
        return " ".join(f"{p.start}-{p.end} of {p.size}: {sum(p.data)}" for p in read)

    def _state(self) -> str:
        """What is stored where, once the writer has nothing to do."""
        self._settle()
        store = self._store
        facts = (store.memory.used, store.memory.tokens, store.disk_bytes, store.disk_tokens)
        return f"{facts} {store.unsaved} {store.accepts_saves}"

    def _settle(self) -> None:
        """Wait until the writer has done all before this."""
        self.written.clear()
        self._store._writes.put(LAST)  # pyright: ignore[reportPrivateUsage]
        assert self.written.wait(20), "the writer is stuck"

    def _open(self) -> KVStore:
        disk, memory = self._limits
        spec = KVStoreSpec(
            folder=str(self._root), model=MODEL, disk_bytes=disk, memory_bytes=memory
        )
        return KVStore(spec, "key", spare=lambda: self._spare)


def test_recorded_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = KVDisk.remove

    def removed(disk: KVDisk, key: bytes) -> None:
        remove(disk, key)
        if key == LAST:
            recording.written.set()

    monkeypatch.setattr(KVDisk, "remove", removed)
    lines: list[str] = []
    for seed in range(SEEDS):
        recording = Recording(tmp_path / str(seed), seed)
        recording.run(50)
        lines += recording.lines
    assert_recorded(RECORDED, lines)
