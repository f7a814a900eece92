"""What is computed once is found again: by the next turn, an edit, a branch, a parallel chat."""

from __future__ import annotations

import pytest

from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv.state_checkpoints import Checkpoints
from ingle.backends.engine.kv_cache import MIN_SHARED
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner


def make_engine(*, context: int = 512, slots: int = 4, can_fork: bool = True) -> Engine:
    """An engine whose runner compares, in every step, what its slots hold with the sequences."""
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
    """A batch with all but the last four tokens."""
    batch = Batch()
    batch.add(sequence, sequence.prompt_length - 4)
    return batch


@pytest.mark.slow
def test_the_next_turn_computes_only_what_is_new() -> None:
    engine = make_engine()
    first = ask(engine, chat(1, 100))
    assert first.cached_tokens == 0
    # The last generated token was never computed: nothing came after it.
    computed = len(first.token_ids) - 1
    before = engine.gauges().prompt_tokens_total
    second = ask(engine, first.token_ids + chat(2, 20))
    assert second.cached_tokens == computed
    assert engine.gauges().prompt_tokens_total - before == second.prompt_length - computed


def test_an_edit_reuses_what_stands_before_it_and_keeps_the_original() -> None:
    engine = make_engine()
    original = chat(1, 200)
    ask(engine, original)
    edited = original[:120] + chat(9, 50)
    assert ask(engine, edited).cached_tokens == 120
    assert ask(engine, original).cached_tokens == 199
    # 120 cells belong to both chats, and count once.
    assert engine.gauges().kv_kept < 202 + 172


def test_the_last_prompt_token_is_always_computed() -> None:
    engine = make_engine()
    prompt = chat(1, 100)
    ask(engine, prompt)
    again = ask(engine, prompt)
    assert again.cached_tokens == 99
    assert again.num_generated == 3


def test_short_prefixes_are_computed_again() -> None:
    engine = make_engine()
    ask(engine, chat(1, MIN_SHARED - 1) + chat(2, 40))
    assert ask(engine, chat(1, MIN_SHARED - 1) + chat(3, 40)).cached_tokens == 0
    assert engine.gauges().kv_kept > 0


def test_parallel_chats_keep_their_places() -> None:
    engine = make_engine(context=512)
    chats = {seed: ask(engine, chat(seed, 60)).token_ids for seed in (1, 2, 3, 4, 5)}
    for turn in range(3):
        for seed, tokens in chats.items():
            sequence = ask(engine, tokens + chat(seed + 10 * turn, 8))
            assert sequence.cached_tokens >= len(tokens) - 1
            chats[seed] = sequence.token_ids


def test_the_oldest_gives_way_first() -> None:
    engine = make_engine(context=256)
    old, newer = chat(1, 100), chat(2, 100)
    ask(engine, old)
    ask(engine, newer)
    ask(engine, chat(3, 120))  # needs room: the oldest goes
    assert ask(engine, newer, max_tokens=1).cached_tokens == 99
    assert ask(engine, old, max_tokens=1).cached_tokens == 0


def test_what_is_kept_gives_way_before_anybody_is_preempted() -> None:
    engine = make_engine(context=256, slots=2)
    ask(engine, chat(1, 200))
    both = [Sequence("r", 0, chat(seed, 100), SamplingParams(), max_tokens=5) for seed in (2, 3)]
    for sequence in both:
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    assert engine.scheduler.preemptions == 0
    assert [sequence.num_generated for sequence in both] == [5, 5]


def test_a_running_sequence_lends_what_it_has() -> None:
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


def test_a_cancelled_answer_is_kept_as_far_as_it_came() -> None:
    engine = make_engine()
    sequence = Sequence("a", 0, chat(1, 100), SamplingParams(), max_tokens=6)
    engine.add(sequence)
    while sequence.num_generated < 3:
        engine.step()
    engine.finish(sequence, FinishReason.CANCELLED)
    assert ask(engine, sequence.token_ids + chat(2, 10)).cached_tokens == 102


@pytest.mark.parametrize(("prefix", "expected"), [(102, 102), (99, 96), (80, 0)])
def test_a_state_that_cannot_be_cut_goes_on_from_its_end_or_a_checkpoint(
    prefix: int, expected: int
) -> None:
    engine = make_engine(can_fork=False)
    first = ask(engine, chat(1, 100))
    assert len(first.token_ids) == 103
    assert ask(engine, first.token_ids[:prefix] + chat(2, 20)).cached_tokens == expected


def test_checkpoints_lead_back_to_every_turn() -> None:
    engine = make_engine(can_fork=False, context=4096)
    turns: list[Sequence] = []
    tokens = chat(1, 1500)
    for turn in range(4):
        turns.append(ask(engine, tokens))
        tokens = turns[-1].token_ids + chat(turn + 2, 40)
    for turn in reversed(turns):
        edited = turn.token_ids[: turn.prompt_length - 1] + chat(9, 30)
        assert ask(engine, edited).cached_tokens == turn.prompt_length - 4
    # A long prompt has some on the way.
    assert ask(engine, turns[0].token_ids[:1200] + chat(9, 90)).cached_tokens == 1024


def test_answers_to_one_prompt_share_its_checkpoint() -> None:
    engine = make_engine(can_fork=False)
    prompt = chat(1, 100)
    first = Sequence("r", 0, list(prompt), SamplingParams(), max_tokens=9)
    second = Sequence("r", 1, list(prompt), SamplingParams(), max_tokens=9, parent=first)
    engine.add(first)
    engine.add(second)
    while engine.has_work:
        engine.step()
    assert (first.cached_tokens, second.cached_tokens) == (0, 96)


def test_checkpoints_are_bounded() -> None:
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


def test_endless_conversations_leak_no_cells() -> None:
    engine = make_engine(context=256, slots=3)
    for round_ in range(200):
        ask(engine, chat(round_ % 7, 40 + round_ % 60) + chat(round_, 1 + round_ % 90))
        gauges = engine.gauges()
        assert gauges.kv_used == 0
        assert 0 <= gauges.kv_kept <= gauges.kv_capacity
