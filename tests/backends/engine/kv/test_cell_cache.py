"""Prefix caching in cells: turns, edits, branches, parallel chats, eviction and checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv.cell_cache import CellCache
from ingle.backends.engine.kv.state_checkpoints import Checkpoints
from ingle.backends.engine.kv_cache import MIN_SHARED
from ingle.backends.engine.kv_store.kv_chunk_file import StoredPart
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner


def make_engine(*, context: int = 512, slots: int = 4, can_fork: bool = True) -> Engine:
    """Make an engine whose runner compares its slots with the sequences in every step."""
    spec = LoadSpec(
        engine="scripted",
        path="",
        context=context,
        slots=slots,
        batch=64,
        script='{"reply": "answer"}',
    )
    runner = ScriptedModelRunner(spec)
    runner.can_fork = can_fork
    return Engine(runner)


def ask(engine: Engine, tokens: list[int], max_tokens: int = 3) -> Sequence:
    sequence = Sequence("r", 0, list(tokens), SamplingParams(), max_tokens=max_tokens)
    engine.add(sequence)
    while engine.has_work:
        engine.step()
    return sequence


def chat(seed: int, length: int) -> list[int]:
    return [(seed * 31 + i * 7) % 251 for i in range(length)]


def _whole(sequence: Sequence) -> Batch:
    """Return a batch with all but the last four tokens."""
    batch = Batch()
    batch.add(sequence, sequence.prompt_length - 4)
    return batch


@pytest.mark.slow
def test_next_turn_prefills_only_new_tokens() -> None:
    engine = make_engine()
    first = ask(engine, chat(1, 100))
    assert first.cached_tokens == 0
    # The last generated token was never computed, because no token followed it.
    computed = len(first.token_ids) - 1
    before = engine.gauges().prompt_tokens_total
    second = ask(engine, first.token_ids + chat(2, 20))
    assert second.cached_tokens == computed
    assert engine.gauges().prompt_tokens_total - before == second.prompt_length - computed


def test_edited_prompt_reuses_its_prefix_and_keeps_the_original() -> None:
    engine = make_engine()
    original = chat(1, 200)
    ask(engine, original)
    edited = original[:120] + chat(9, 50)
    assert ask(engine, edited).cached_tokens == 120
    assert ask(engine, original).cached_tokens == 199
    # 120 cells are shared by both chats and count once.
    assert engine.gauges().kv_kept < 202 + 172


def test_last_prompt_token_is_always_computed() -> None:
    engine = make_engine()
    prompt = chat(1, 100)
    ask(engine, prompt)
    again = ask(engine, prompt)
    assert again.cached_tokens == 99
    assert again.num_generated == 3


def test_short_prefixes_are_not_reused() -> None:
    engine = make_engine()
    ask(engine, chat(1, MIN_SHARED - 1) + chat(2, 40))
    assert ask(engine, chat(1, MIN_SHARED - 1) + chat(3, 40)).cached_tokens == 0
    assert engine.gauges().kv_kept > 0


def test_parallel_chats_keep_their_cached_prefixes() -> None:
    engine = make_engine(context=512)
    chats = {seed: ask(engine, chat(seed, 60)).token_ids for seed in (1, 2, 3, 4, 5)}
    for turn in range(3):
        for seed, tokens in chats.items():
            sequence = ask(engine, tokens + chat(seed + 10 * turn, 8))
            assert sequence.cached_tokens >= len(tokens) - 1
            chats[seed] = sequence.token_ids


def test_least_recently_used_chat_is_evicted_first() -> None:
    engine = make_engine(context=256)
    old, newer = chat(1, 100), chat(2, 100)
    ask(engine, old)
    ask(engine, newer)
    ask(engine, chat(3, 120))  # needs room: evicts the oldest
    assert ask(engine, newer, max_tokens=1).cached_tokens == 99
    assert ask(engine, old, max_tokens=1).cached_tokens == 0


@pytest.mark.parametrize(
    ("parts", "restored"),
    [
        ([(0, 32), (32, 64)], 64),
        ([(0, 32), (40, 64)], 32),  # one is missing between them
        ([(16, 48)], 0),  # the first one is
        ([(0, 32), (0, 32), (32, 48)], 48),  # one is known by now
        ([(0, 32), (32, 64, 256)], 32),  # all of its snapshot does not fit
    ],
)
def test_stored_parts_are_appended_while_they_follow_and_fit(
    parts: list[tuple[int, ...]], restored: int
) -> None:
    runner = make_engine(context=96, slots=1).runner
    assert isinstance(runner, ScriptedModelRunner)
    cache = CellCache(runner)
    sequence = Sequence("r", 0, chat(1, 80), SamplingParams())
    tokens = np.asarray(sequence.token_ids, np.int32)
    sequence.stored = [
        StoredPart(start, end, max((end - start, *size)), tokens[start:end].tobytes())
        for start, end, *size in parts
    ]
    cache.open(sequence, cache.match(tokens))
    assert sequence.num_computed == restored
    assert cache.used == restored
    assert sequence.stored == []


def test_cached_cells_are_evicted_before_a_sequence_is_preempted() -> None:
    engine = make_engine(context=256, slots=2)
    ask(engine, chat(1, 200))
    both = [Sequence("r", 0, chat(seed, 100), SamplingParams(), max_tokens=5) for seed in (2, 3)]
    for sequence in both:
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    assert engine.scheduler.preemptions == 0
    assert [sequence.num_generated for sequence in both] == [5, 5]


def test_prefix_of_a_running_sequence_is_shared() -> None:
    engine = make_engine()
    prompt = chat(1, 150)
    first = Sequence("a", 0, list(prompt), SamplingParams(), max_tokens=6)
    engine.add(first)
    while first.num_generated == 0:
        engine.step()
    second = Sequence("b", 0, prompt[:140] + chat(5, 10), SamplingParams(), max_tokens=2)
    engine.add(second)
    while engine.has_work:
        engine.step()
    assert second.cached_tokens == 140


def test_cancelled_answer_stays_cached_up_to_its_last_computed_token() -> None:
    engine = make_engine()
    sequence = Sequence("a", 0, chat(1, 100), SamplingParams(), max_tokens=6)
    engine.add(sequence)
    while sequence.num_generated < 3:
        engine.step()
    engine.finish(sequence, FinishReason.CANCELLED)
    assert ask(engine, sequence.token_ids + chat(2, 10)).cached_tokens == 102


@pytest.mark.parametrize(("prefix", "expected"), [(102, 102), (99, 96), (80, 0)])
def test_unforkable_state_is_reused_at_its_end_or_a_checkpoint(prefix: int, expected: int) -> None:
    engine = make_engine(can_fork=False)
    first = ask(engine, chat(1, 100))
    assert len(first.token_ids) == 103
    assert ask(engine, first.token_ids[:prefix] + chat(2, 20)).cached_tokens == expected


def test_every_turn_has_a_checkpoint_to_edit_from() -> None:
    engine = make_engine(can_fork=False, context=4096)
    turns: list[Sequence] = []
    tokens = chat(1, 1500)
    for turn in range(4):
        turns.append(ask(engine, tokens))
        tokens = turns[-1].token_ids + chat(turn + 2, 40)
    for turn in reversed(turns):
        edited = turn.token_ids[: turn.prompt_length - 1] + chat(9, 30)
        assert ask(engine, edited).cached_tokens == turn.prompt_length - 4
    # A long prompt has some checkpoints within it.
    assert ask(engine, turns[0].token_ids[:1200] + chat(9, 90)).cached_tokens == 1024


def test_choices_of_one_prompt_share_its_checkpoint() -> None:
    engine = make_engine(can_fork=False)
    prompt = chat(1, 100)
    first = Sequence("r", 0, list(prompt), SamplingParams(), max_tokens=9)
    second = Sequence("r", 1, list(prompt), SamplingParams(), max_tokens=9, parent=first)
    engine.add(first)
    engine.add(second)
    while engine.has_work:
        engine.step()
    assert (first.cached_tokens, second.cached_tokens) == (0, 96)


def test_number_of_checkpoints_is_bounded() -> None:
    engine = make_engine(can_fork=False)
    runner = engine.runner
    assert isinstance(runner, ScriptedModelRunner)
    checkpoints = Checkpoints(runner, memory=5 * 100 * 4)
    for slot in range(4):
        sequence = Sequence("r", 0, chat(slot, 104), SamplingParams())
        sequence.slot = slot
        engine.runner.launch(_whole(sequence))
        sequence.num_computed = 100
        checkpoints.take(sequence)
    checkpoints.share(0, 9, 100)
    assert [slot for slot in range(10) if checkpoints.find(slot, 100)] == [0, 1, 2, 3, 9]
    checkpoints.share(1, 8, 100)
    assert [slot for slot in range(10) if checkpoints.find(slot, 100)] == [0, 1, 3, 8, 9]
    checkpoints.drop(0)
    assert checkpoints.find(0, 100) is None
    assert checkpoints.find(9, 99) is None


def test_long_conversations_leak_no_cells() -> None:
    engine = make_engine(context=256, slots=3)
    for round_ in range(200):
        ask(engine, chat(round_ % 7, 40 + round_ % 60) + chat(round_, 1 + round_ % 90))
        gauges = engine.gauges()
        assert gauges.kv_used == 0
        assert 0 <= gauges.kv_kept <= gauges.kv_capacity
