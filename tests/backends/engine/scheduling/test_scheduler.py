"""The scheduler on a scripted runner that checks every cell of the KV cache."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.model_runner import StepStopped
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner

pytestmark = pytest.mark.quick

REPLY = "abcdefghijklmnopqrstuvwxyz" * 10


def make_engine(
    *, context: int = 64, slots: int = 4, batch: int = 16, reply: str = REPLY
) -> Engine:
    spec = LoadSpec(
        engine="scripted",
        path="",
        context=context,
        slots=slots,
        batch=batch,
        script=f'{{"reply": "{reply}"}}',
    )
    return Engine(ScriptedModelRunner(spec))


def make_sequence(
    prompt: int, max_tokens: int | None, parent: Sequence | None = None, index: int = 0
) -> Sequence:
    return Sequence(
        "r", index, [1] * prompt, SamplingParams(), max_tokens=max_tokens, parent=parent
    )


def run(engine: Engine, limit: int = 10_000) -> int:
    steps = 0
    while engine.has_work:
        engine.step()
        steps += 1
        assert engine.scheduler.kv.used <= engine.runner.kv_capacity
        assert steps < limit, "the scheduler makes no progress"
    return steps


def text(sequence: Sequence) -> str:
    return bytes(t for t in sequence.token_ids[sequence.prompt_length :] if t < 256).decode()


def test_single_sequence_runs_to_completion() -> None:
    engine = make_engine(reply="hello")
    sequence = make_sequence(40, None)
    engine.add(sequence)
    steps = run(engine)
    assert text(sequence) == "hello"
    assert sequence.finish_reason is FinishReason.STOP
    # Three chunks of a 40-token prompt, the last of which samples; then one token per step.
    assert steps == 3 + 5
    assert engine.scheduler.kv.used == 0


def test_full_context_finishes_a_sequence() -> None:
    engine = make_engine(context=32)
    sequence = make_sequence(20, None)
    engine.add(sequence)
    run(engine)
    assert sequence.finish_reason is FinishReason.LENGTH
    assert len(sequence.token_ids) == 32


def test_decoding_continues_during_a_long_prefill() -> None:
    engine = make_engine(context=256, batch=16)
    short = make_sequence(4, 30)
    engine.add(short)
    engine.step()
    engine.add(make_sequence(100, 1))
    for expected in range(2, 8):
        engine.step()
        assert short.num_generated == expected


def test_forked_sequences_share_the_prompt() -> None:
    engine = make_engine(context=64, slots=4)
    first = make_sequence(33, 4)
    others = [make_sequence(33, 4, first, index) for index in (1, 2, 3)]
    for sequence in (first, *others):
        engine.add(sequence)
    run(engine)
    assert [text(sequence) for sequence in (first, *others)] == ["abcd"] * 4
    # Unshared, four prompts of 33 tokens would need preemption in 64 cells.
    assert engine.scheduler.preemptions == 0
    assert engine.gauges().prompt_tokens_total == 33 + 3


def test_full_cache_preempts_the_youngest_without_losing_tokens() -> None:
    engine = make_engine(context=64, slots=4)
    sequences = [make_sequence(15, 40) for _ in range(4)]
    for sequence in sequences:
        engine.add(sequence)
    run(engine)
    assert engine.scheduler.preemptions > 0
    assert {text(sequence) for sequence in sequences} == {REPLY[:40]}
    finished = [sequence.last_token_at for sequence in sequences]
    assert finished == sorted(finished), "older sequences must not wait for younger ones"


@given(
    requests=st.lists(
        st.tuples(
            st.integers(0, 2),  # conversation it belongs to
            st.integers(0, 90),  # tokens it shares with the others of that conversation
            st.integers(1, 30),  # tokens of its own
            st.integers(1, 60),  # max_tokens
            st.integers(1, 3),  # n
            st.integers(0, 20),  # arrives after this many steps
            st.one_of(st.none(), st.integers(0, 40)),  # cancelled after this many steps
        ),
        min_size=1,
        max_size=8,
    ),
    batch=st.integers(1, 40),
    slots=st.integers(1, 6),
    can_fork=st.booleans(),
)
def test_random_load_completes_and_frees_all_cells(
    requests: list[tuple[int, int, int, int, int, int, int | None]],
    batch: int,
    slots: int,
    can_fork: bool,
) -> None:
    """The scripted cache compares every slot's tokens with the sequence's in every step."""
    engine = make_engine(context=128, slots=slots, batch=batch)
    runner = engine.runner
    assert isinstance(runner, ScriptedModelRunner)
    runner.can_fork = can_fork
    arrivals: dict[int, list[Sequence]] = {}
    cancels: dict[int, list[Sequence]] = {}
    everything: list[Sequence] = []
    for number, (chat, common, own, max_tokens, n, at, cancel) in enumerate(requests):
        prompt = [(chat * 50 + i) % 256 for i in range(common)] + [number] * own
        first = Sequence("r", 0, list(prompt), SamplingParams(), max_tokens=max_tokens)
        group = [first]
        group += [
            Sequence("r", i, list(prompt), SamplingParams(), max_tokens, parent=first)
            for i in range(1, n)
        ]
        arrivals.setdefault(at, []).extend(group)
        everything += group
        if cancel is not None:
            cancels.setdefault(max(at, cancel), []).append(first)
    for step in range(20_000):
        for sequence in arrivals.pop(step, []):
            engine.add(sequence)
        for sequence in cancels.pop(step, []):
            engine.finish(sequence, FinishReason.CANCELLED)
        if engine.has_work:
            engine.step()
            assert runner.free_cells == 128 - engine.scheduler.kv.used - engine.scheduler.kv.kept
        elif not arrivals and not cancels:
            break
    assert not engine.has_work
    assert engine.scheduler.kv.used == 0
    for sequence in everything:
        expected = min(sequence.max_tokens or 0, 128 - sequence.prompt_length)
        if sequence.finish_reason is not FinishReason.CANCELLED:
            assert text(sequence) == REPLY[:expected]
            assert sequence.num_generated == expected


def test_cache_smaller_than_announced_still_completes_all_requests() -> None:
    """A sequence preempted after the runner ran out of cells is not readmitted in the same step."""
    engine = make_engine(context=48, slots=2, batch=64)
    runner = engine.runner
    assert isinstance(runner, ScriptedModelRunner)
    runner.lose_cells(10)
    sequences = [make_sequence(15, 12) for _ in range(2)]
    announced: list[Sequence] = []
    for sequence in sequences:
        engine.add(sequence)
    for _ in range(200):
        if not engine.has_work:
            break
        announced += engine.admit()
        engine.step()
    assert not engine.has_work
    assert announced == sequences
    assert [text(sequence) for sequence in sequences] == [REPLY[:12]] * 2
    assert engine.scheduler.preemptions > 0


def run_two_prompts(apart: float, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Run prompts of 300 and 900 tokens that came `apart` seconds, at 8 ms a token.

    Returns prompt tokens and decoding sequences of each step with prefill.
    """
    engine = make_engine(context=2048, batch=512)
    clock = [100.0]
    steps: list[tuple[int, int]] = []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    launch = engine.runner.launch

    def launch_slowly(batch: Batch) -> None:
        launch(batch)
        clock[0] += 0.008 * batch.num_tokens  # 32 tokens are the shortest step
        if batch.prompt_tokens:
            steps.append((batch.prompt_tokens, batch.num_tokens - batch.prompt_tokens))

    monkeypatch.setattr(engine.runner, "launch", launch_slowly)
    first, second = make_sequence(300, 50), make_sequence(900, 2)
    second.token_ids[:] = [2] * 900
    second.arrived_at = first.arrived_at + apart
    engine.add(first)
    engine.add(second)
    run(engine)
    assert (text(first), text(second)) == (REPLY[:50], REPLY[:2])
    return steps


def test_requests_made_together_are_not_cut_into_short_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = run_two_prompts(0.0, monkeypatch)
    begun = next(number for number, (_, decoding) in enumerate(steps) if decoding)
    assert max(tokens for tokens, _ in steps[begun:]) > 32
    assert [decoding for _, decoding in steps[begun:]] == [1, 0, 0, 0, 1]


def test_a_later_prompt_is_read_in_short_steps_that_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = run_two_prompts(30.0, monkeypatch)
    begun = next(number for number, (_, decoding) in enumerate(steps) if decoding)
    assert max(tokens for tokens, _ in steps[begun:]) <= 32
    assert all(decoding == 1 for _, decoding in steps[begun:])


def test_stopped_step_computes_nothing_and_the_next_one_is_not_stopped() -> None:
    engine = make_engine(context=512, batch=512, reply=REPLY)
    measured = Batch(num_tokens=64)
    engine.scheduler.mark_launched(measured)
    engine.scheduler.update(measured, [], 64 * 0.01)  # 100 tokens are long
    asked: list[int] = []

    def stops(batch: Batch) -> bool:
        asked.append(batch.num_tokens)
        return True

    engine.stops = stops
    sequence = make_sequence(300, 4)
    engine.add(sequence)
    launch = engine.runner.launch

    def launch_or_stop(batch: Batch) -> None:
        if batch.stops is not None and batch.stops():
            raise StepStopped
        launch(batch)

    engine.runner.launch = launch_or_stop  # type: ignore[method-assign]
    assert engine.step() == []
    assert sequence.num_computed == sequence.num_in_flight == 0
    assert engine.step() == []
    assert sequence.num_computed == 128
    run(engine)
    assert text(sequence) == REPLY[:4]
    assert asked == [128, 128, 44]
