"""Engines over the scripted runner, which checks in every step what its slots hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from ingle.backends.base import EngineKind, KVStoreSpec, LoadSpec, SamplingParams
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence
from ingle.backends.scripted.model_runner import ScriptedModelRunner

GIB = 2**30
MODEL = "ab" * 32


class StoringEngine:
    """An engine with a store behind its KV cache, and what a worker's loop does with it."""

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
            engine=EngineKind.SCRIPTED,
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
        """Until nobody runs, waits, or is being read for."""
        deadline = time.monotonic() + 20
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
        """Save all there is, as an idle worker does."""
        deadline = time.monotonic() + 20
        while self.engine.has_unsaved:
            assert time.monotonic() < deadline, "saving has no end"
            self.engine.save(0.05)
            time.sleep(0.001)

    def files(self) -> list[Path]:
        """The chunks on disk."""
        return sorted(self.folder.glob("*.kv"))


MakeEngine = Callable[..., StoringEngine]


@pytest.fixture
def storing(tmp_path: Path) -> Generator[MakeEngine]:
    """Makes engines that share a folder, each as another life of the same worker."""
    engines: list[StoringEngine] = []

    def make(root: Path = tmp_path / "kv", **settings: int) -> StoringEngine:
        engines.append(StoringEngine(root, **settings))
        return engines[-1]

    yield make
    for engine in engines:
        engine.store.close(5)


@pytest.fixture
def chat() -> Callable[[int, int], list[int]]:
    """Makes `length` tokens of a conversation that no other `seed` has."""

    def make(seed: int, length: int) -> list[int]:
        return [(seed * 31 + i * 7 + i * i * seed) % 251 for i in range(length)]

    return make
