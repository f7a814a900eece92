"""Prefix caching in the paged KV cache: reuse, copy-on-write, admission, offload, privacy."""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

from ingle.backends.base.load_spec import KVStoreSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv.paged_cache import PagedCache
from ingle.backends.engine.kv_cache import MIN_SHARED
from ingle.backends.engine.kv_store.kv_chunk_file import StoredPart
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence

pytestmark = pytest.mark.quick

GIB = 2**30
MakeRunner = Callable[..., Any]


@pytest.fixture
def make(number_runner: MakeRunner) -> MakeRunner:
    """Return a factory of runners with pages of 16 tokens."""

    def make_runner(*, num_blocks: int = 40, context: int = 512, **settings: int) -> Any:
        return number_runner(block_size=16, num_blocks=num_blocks, context=context, **settings)

    return make_runner


def ask(
    engine: Engine, tokens: list[int], max_tokens: int = 3, *, private: bool = False
) -> Sequence:
    sequence = Sequence("r", 0, list(tokens), SamplingParams(), max_tokens, private=private)
    sequence.ignore_eos = True
    engine.add(sequence)
    while engine.has_work or engine.is_fetching:
        engine.step()
    return sequence


def chat(seed: int, length: int) -> list[int]:
    return [(seed * 31 + i * 7 + i * i * seed) % 251 for i in range(length)]


def cache_of(engine: Engine) -> PagedCache:
    cache = engine.scheduler.kv
    assert isinstance(cache, PagedCache)
    return cache


def test_next_turn_continues_in_the_last_partial_page(make: MakeRunner) -> None:
    runner = make()
    engine = Engine(runner)
    first = ask(engine, chat(1, 100))
    second = ask(engine, first.token_ids + chat(2, 20))
    assert (first.cached_tokens, second.cached_tokens) == (0, 102)
    assert runner.copied == 0


def test_edit_copies_its_page_and_keeps_the_original(make: MakeRunner) -> None:
    runner = make()
    engine = Engine(runner)
    original = chat(1, 200)
    ask(engine, original)
    assert ask(engine, original[:119] + chat(9, 50)).cached_tokens == 119
    assert runner.copied == 1
    again = ask(engine, original, max_tokens=1)
    assert again.cached_tokens == 199
    assert again.token_ids[200:] == runner.answer(original, 1)
    # 7 pages are shared by both chats and count once.
    assert engine.gauges().kv_kept == 16 * (13 + 11 - 7)


def test_last_prompt_token_is_always_computed(make: MakeRunner) -> None:
    engine = Engine(make())
    for length in (95, 96, 97):
        prompt = chat(length, length)
        ask(engine, prompt)
        assert ask(engine, prompt).cached_tokens == length - 1


def test_short_prefixes_are_not_reused(make: MakeRunner) -> None:
    engine = Engine(make())
    ask(engine, chat(1, MIN_SHARED - 1) + chat(2, 40))
    assert ask(engine, chat(1, MIN_SHARED - 1) + chat(3, 40)).cached_tokens == 0
    ask(engine, chat(5, MIN_SHARED - 10))
    kept = engine.gauges().kv_kept
    ask(engine, chat(6, MIN_SHARED - 10))
    assert engine.gauges().kv_kept == kept + 16, "the page that is not full is of no use"


def test_prefix_of_a_running_sequence_is_shared_to_the_token(make: MakeRunner) -> None:
    runner = make()
    engine = Engine(runner)
    prompt = chat(1, 150)
    first = Sequence("a", 0, list(prompt), SamplingParams(), max_tokens=9, ignore_eos=True)
    engine.add(first)
    while first.num_generated < 3:
        engine.step()
    second = ask(engine, prompt[:147] + chat(5, 10), max_tokens=5)
    assert second.cached_tokens == 147
    assert second.token_ids[157:] == runner.answer(prompt[:147] + chat(5, 10), 5)
    assert first.token_ids[150:] == runner.answer(prompt, 9)


def test_concurrent_prefills_of_one_prompt_are_deduplicated(make: MakeRunner) -> None:
    engine = Engine(make(batch=64))
    prompt = chat(1, 160)
    pair = [Sequence("r", 0, list(prompt), SamplingParams(), max_tokens=9) for _ in range(2)]
    for sequence in pair:
        engine.add(sequence)
    while not all(sequence.num_generated for sequence in pair):
        engine.step()
    assert pair[0].block_table[:10] == pair[1].block_table[:10]
    assert engine.scheduler.kv.used <= 16 * 12


def test_choices_of_one_prompt_share_its_pages(make: MakeRunner) -> None:
    runner = make(num_blocks=16, context=256, slots=4)
    engine = Engine(runner)
    prompt = chat(1, 150)
    first = Sequence("r", 0, list(prompt), SamplingParams(), 9, ignore_eos=True)
    rest = [
        Sequence("r", i, list(prompt), SamplingParams(), 9, ignore_eos=True, parent=first)
        for i in (1, 2, 3)
    ]
    for sequence in (first, *rest):
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    assert [sequence.cached_tokens for sequence in rest] == [149] * 3
    assert engine.scheduler.preemptions == 0
    assert {tuple(s.token_ids[150:]) for s in (first, *rest)} == {tuple(runner.answer(prompt, 9))}


def test_partial_page_is_filled_without_a_free_page(make: MakeRunner) -> None:
    """Sixteen tokens fit into the free half of a page although all other pages are used."""
    runner = make(num_blocks=4, context=64, slots=2)
    engine = Engine(runner)
    pair = [Sequence("r", 0, chat(seed, 18), SamplingParams(), 14) for seed in (1, 2)]
    for sequence in pair:
        sequence.ignore_eos = True
        engine.add(sequence)
    engine.step()
    engine.step()
    assert cache_of(engine).available == 0
    while engine.has_work:
        engine.step()
    assert engine.scheduler.preemptions == 0
    assert [sequence.num_generated for sequence in pair] == [14, 14]


def test_admission_rounds_up_to_whole_pages(make: MakeRunner) -> None:
    """Three prompts of 17 tokens are 51 tokens, but six pages."""
    engine = Engine(make(num_blocks=5, context=80, slots=4))
    for seed in (1, 2, 3):
        engine.add(Sequence("r", 0, chat(seed, 17), SamplingParams(), max_tokens=3))
    assert len(engine.admit()) == 2
    while engine.has_work:
        engine.step()
    assert engine.scheduler.preemptions == 0


def test_pages_of_drafts_leave_one_for_each_sequence(make: MakeRunner) -> None:
    cache = make(num_blocks=8, context=128).open_cache()
    first, second = (Sequence("r", 0, chat(seed, 20), SamplingParams()) for seed in (1, 2))
    for sequence in (first, second):
        cache.open(sequence, cache.match(np.array(sequence.token_ids, np.int32)))
        batch = Batch()
        batch.add(sequence, 20)
        cache.reserve(batch)
        cache.grow(sequence, 20)
    for count, pages in ((12, 2), (44, 4)):
        assert cache.reserve_drafts(first, count)
        assert (len(first.block_table), cache.available) == (pages, 16 * (6 - pages))
    assert not cache.reserve_drafts(second, 13)
    assert len(second.block_table) == 2


def test_context_as_large_as_the_pool_can_be_filled(make: MakeRunner) -> None:
    runner = make(num_blocks=8, context=128)
    engine = Engine(runner)
    first = ask(engine, chat(1, 100), max_tokens=100)
    assert len(first.token_ids) == 128
    # No page is free to copy the last one into: the tokens after the edit are given up.
    edited = first.token_ids[:120] + chat(3, 5)
    again = ask(engine, edited, max_tokens=2)
    assert again.cached_tokens == 120
    assert runner.copied == 0
    assert again.token_ids[125:] == runner.answer(edited, 2)


def test_pool_smaller_than_one_context_is_rejected(make: MakeRunner) -> None:
    with pytest.raises(ValueError, match="no cache"):
        make(num_blocks=4, context=65).open_cache()


@pytest.fixture
def store() -> Generator[KVStore]:
    """Return a KV store in memory."""
    spec = KVStoreSpec(folder="/nowhere", model="ab" * 32, disk_bytes=0, memory_bytes=GIB)
    store = KVStore(spec, "numbers", spare=lambda: GIB)
    yield store
    store.close(5)


def test_evicted_pages_are_restored_from_the_store(make: MakeRunner, store: KVStore) -> None:
    runner = make(num_blocks=50, context=800)
    engine = Engine(runner, store=store)
    first = ask(engine, chat(1, 700))
    ask(engine, chat(2, 790))
    turn = first.token_ids + chat(3, 20)
    again = ask(engine, turn)
    assert again.cached_tokens == 702
    assert again.token_ids[len(turn) :] == runner.answer(turn, 3)
    assert engine.gauges().restored_tokens_total == 702 - 702 % 256 + 702 % 256


def test_failed_restore_recomputes_and_drops_the_stored_chunk(
    make: MakeRunner, store: KVStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = make(num_blocks=50, context=800)
    engine = Engine(runner, store=store)
    first = ask(engine, chat(1, 700))
    ask(engine, chat(2, 790))

    def refuse(*_: object) -> bool:
        return False

    monkeypatch.setattr(runner, "write_pages", refuse)
    again = ask(engine, first.token_ids)
    assert again.cached_tokens == 0
    assert store.match(np.array(first.token_ids, np.int32)) == 0
    assert again.token_ids[703:] == runner.answer(first.token_ids, 3)


def test_private_tokens_are_never_offloaded(make: MakeRunner, store: KVStore) -> None:
    runner = make(num_blocks=50, context=800)
    engine = Engine(runner, store=store)
    public = ask(engine, chat(1, 300))
    private = ask(engine, public.token_ids + chat(2, 300), private=True)
    assert private.cached_tokens == 302
    ask(engine, chat(3, 790))
    assert store.match(np.array(private.token_ids, np.int32)) == 302
    secret = ask(engine, chat(4, 300), private=True)
    generated = ask(engine, secret.token_ids + chat(5, 50))
    assert generated.cached_tokens == 302
    ask(engine, chat(6, 790))
    assert store.match(np.array(generated.token_ids, np.int32)) == 355


def test_private_tail_of_a_public_page_is_not_stored(make: MakeRunner, store: KVStore) -> None:
    engine = Engine(make(num_blocks=50, context=800), store=store)
    public = ask(engine, chat(1, 35))
    private = ask(engine, public.token_ids + chat(2, 4), private=True)
    assert (private.cached_tokens, len(private.token_ids)) == (37, 45)
    ask(engine, chat(3, 790))
    assert store.match(np.array(private.token_ids, np.int32)) == 37


def test_tokens_overwritten_by_a_private_edit_are_not_stored(
    make: MakeRunner, store: KVStore
) -> None:
    engine = Engine(make(num_blocks=8, context=128), store=store)
    public = ask(engine, chat(1, 100), max_tokens=100)
    edited = ask(engine, public.token_ids[:118] + chat(3, 7), private=True)
    assert edited.cached_tokens == 118, "the page itself was taken"
    known = np.array(edited.token_ids, np.int32).tobytes()
    _, page, _ = cache_of(engine).pages.find(known)
    assert page is not None
    assert page.public == 118 % 16
    assert store.match(np.array(public.token_ids, np.int32)) == 127, "it was saved before"
    ask(engine, chat(4, 120))
    assert store.match(np.array(edited.token_ids, np.int32)) == 118


def test_restore_extends_a_cached_prefix(make: MakeRunner, store: KVStore) -> None:
    engine = Engine(make(num_blocks=50, context=800), store=store)
    whole = ask(engine, chat(1, 700))
    ask(engine, chat(2, 790))
    ask(engine, whole.token_ids[:300])
    read: queue.SimpleQueue[list[StoredPart]] = queue.SimpleQueue()
    store.fetch(np.array(whole.token_ids, np.int32), 256, read.put)
    assert [(part.start, part.end) for part in read.get(timeout=10)] == [(256, 512), (512, 702)]
    assert ask(engine, whole.token_ids + chat(3, 9)).cached_tokens == 702
