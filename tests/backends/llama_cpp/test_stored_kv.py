"""A conversation restored from the KV store continues with the same greedy tokens."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner

pytestmark = pytest.mark.model

TEXT = "The lighthouse keeper counted the ships every evening, and wrote them into his book. " * 45
QUESTION = "He asked himself why"
BYTES_PER_TOKEN = 30 * 2 * 192 * 2


class Worker:
    """A runner, a store and an engine, as one worker process has."""

    def __init__(self, runner: LlamaModelRunner, store: KVStore) -> None:
        self.runner = runner
        self.store = store
        self.engine = Engine(runner, store=store)

    def encode(self, text: str) -> list[int]:
        return self.runner.tokenizer.encode(text, add_special=False, parse_special=False)

    def ask(self, tokens: list[int], max_tokens: int) -> Sequence:
        sequence = Sequence(
            "r",
            0,
            list(tokens),
            SamplingParams(temperature=0),
            max_tokens=max_tokens,
            ignore_eos=True,
        )
        self.engine.add(sequence)
        deadline = time.monotonic() + 60
        while self.engine.has_work or self.engine.is_fetching:
            assert time.monotonic() < deadline
            if self.engine.has_work:
                self.engine.step()
            else:
                time.sleep(0.001)
        return sequence

    def save(self) -> None:
        while self.engine.has_unsaved:
            self.engine.save(0.05)
            time.sleep(0.001)


@contextmanager
def worker(
    path: Path, folder: Path, *, disk: int = 2**30, context: int = 2048
) -> Generator[Worker]:
    spec = LoadSpec(engine="llama.cpp", path=str(path), context=context)
    runner = LlamaModelRunner(spec)
    wanted = KVStoreSpec(folder=str(folder), model="ab" * 32, disk_bytes=disk, memory_bytes=2**30)
    store = KVStore(wanted, runner.state_key)
    try:
        yield Worker(runner, store)
    finally:
        store.close(5)
        runner.close()


def generated(sequence: Sequence) -> list[int]:
    return sequence.token_ids[sequence.prompt_length :]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [None, 600], ids=["next turn", "edit"])
def test_restarted_worker_gives_the_same_answer(
    smollm2_path: Path, tmp_path: Path, kept: int | None
) -> None:
    with worker(smollm2_path, tmp_path) as first:
        first_turn = first.ask(first.encode(TEXT), 40)
        assert len(first_turn.token_ids) > 700
        first.save()
        turn = first_turn.token_ids[:kept] + first.encode(QUESTION)
        before = first.ask(turn, 32)
        assert first.engine.gauges().restored_tokens_total == 0
    with worker(smollm2_path, tmp_path) as second:
        came_back = second.ask(turn, 32)
        assert second.engine.gauges().restored_tokens_total == came_back.cached_tokens
        assert came_back.cached_tokens == before.cached_tokens > 500
        assert generated(came_back) == generated(before)


@pytest.mark.slow
def test_evicted_conversation_is_restored_from_memory(smollm2_path: Path, tmp_path: Path) -> None:
    with worker(smollm2_path, tmp_path, disk=0, context=1280) as running:
        first_turn = running.ask(running.encode(TEXT), 40)
        turn = first_turn.token_ids + running.encode(QUESTION)
        before = running.ask(turn, 32)
        running.ask(running.encode("Ships. " * 450), 4)
        gauges = running.engine.gauges()
        assert gauges.kv_memory_bytes > 700 * BYTES_PER_TOKEN
        again = running.ask(turn, 32)
        assert running.engine.gauges().restored_tokens_total > 700
        # Tokens generated before are cached too, but the last prompt token is computed.
        assert again.cached_tokens == len(turn) - 1
        assert generated(again)[:8] == generated(before)[:8]


@pytest.mark.slow
def test_stored_bytes_per_token_match_keys_and_values(smollm2_path: Path, tmp_path: Path) -> None:
    with worker(smollm2_path, tmp_path) as running:
        first_turn = running.ask(running.encode(TEXT), 4)
        running.save()
        per_token = running.engine.gauges().kv_disk_bytes / (len(first_turn.token_ids) - 1)
        assert BYTES_PER_TOKEN < per_token < 1.01 * BYTES_PER_TOKEN
