"""Scheduling policies on the scripted engine: fairness, priorities, preemption, overtaking."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv.cell_cache import CellCache
from ingle.backends.engine.kv_cache import MIN_SHARED, Prefix, Tokens
from ingle.backends.engine.scheduling.waiting_queue import MAX_PASSED
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner

REPLY = "abcdefghijklmnopqrstuvwxyz" * 10
CONTEXT = 128


def make_engine(
    *, context: int = CONTEXT, slots: int = 2, batch: int = 32, capacity: int = 0
) -> Engine:
    spec = LoadSpec(
        engine="scripted",
        path="",
        context=context,
        slots=slots,
        batch=batch,
        kv_capacity=capacity,
        script=f'{{"reply": "{REPLY}"}}',
    )
    return Engine(ScriptedModelRunner(spec))


def interactive(
    prompt: int, max_tokens: int, client: str = "", *, token: int = 1, at: float | None = None
) -> Sequence:
    sequence = Sequence("i", 0, [token] * prompt, SamplingParams(), max_tokens, client=client)
    sequence.arrived_at = sequence.arrived_at if at is None else at
    return sequence


def batch(prompt: int, max_tokens: int, client: str = "", *, token: int = 2) -> Sequence:
    return Sequence(
        "b",
        0,
        [token] * prompt,
        SamplingParams(),
        max_tokens,
        priority=Priority.BATCH,
        client=client,
    )


def add_all(engine: Engine, *sequences: Sequence) -> None:
    for sequence in sequences:
        engine.add(sequence)


def run_until(engine: Engine, *sequences: Sequence, limit: int = 20_000) -> int:
    """Step until all of them ended."""
    for step in range(limit):
        if all(sequence.finish_reason is not None for sequence in sequences):
            return step
        engine.step()
    raise AssertionError("they do not come to their end")


def assert_empty(engine: Engine) -> None:
    assert not engine.has_work
    assert engine.scheduler.kv.used == 0
    assert len(engine.scheduler.waiting) == 0


def test_request_is_not_delayed_by_many_of_another_client() -> None:
    engine = make_engine(slots=2)
    flood = [interactive(10, 10, "a") for _ in range(100)]
    add_all(engine, *flood)
    for _ in range(30):
        engine.step()
    done = sum(sequence.finish_reason is not None for sequence in flood)
    single = interactive(10, 10, "b")
    engine.add(single)
    run_until(engine, single)
    passed = sum(sequence.finish_reason is not None for sequence in flood) - done
    # The running ones, and those of equal claim.
    assert passed <= 4
    run_until(engine, *flood)
    assert_empty(engine)


def test_step_without_admission_starts_no_sequence() -> None:
    engine = make_engine(slots=2)
    first, second = interactive(5, 5), interactive(5, 5)
    engine.add(first)
    assert engine.admit() == [first]
    engine.add(second)  # like one whose cache fetch completed meanwhile
    engine.step(admits=False)
    assert second.slot < 0
    assert engine.admit() == [second]
    run_until(engine, first, second)
    assert_empty(engine)


def test_interactive_request_preempts_a_batch_sequence_for_its_slot() -> None:
    engine = make_engine(slots=2, capacity=512)
    jobs = [batch(40, 30, token=token) for token in (2, 3, 4)]
    add_all(engine, *jobs)
    for _ in range(10):
        engine.step()
    question = interactive(5, 5)
    engine.add(question)
    assert engine.admit() == [question]
    assert question.slot >= 0
    assert [job.slot >= 0 for job in jobs] == [True, False, False], "the youngest goes first"
    prompts = engine.gauges().prompt_tokens_total
    run_until(engine, question, *jobs)
    assert engine.scheduler.preemptions == 1
    # Two more prompts and the question: the preempted one reused its cached tokens.
    assert engine.gauges().prompt_tokens_total - prompts <= 5 + 40 + 1
    assert all(job.num_generated == 30 for job in jobs)
    assert_empty(engine)


def test_interactive_request_preempts_batch_sequences_for_cells() -> None:
    engine = make_engine(slots=4)
    jobs = [batch(40, 20, token=token) for token in (2, 3)]
    add_all(engine, *jobs)
    for _ in range(8):
        engine.step()
    question = interactive(60, 5)
    engine.add(question)
    assert engine.admit() == [question]
    run_until(engine, question)
    assert jobs[1].finish_reason is None
    run_until(engine, *jobs)
    assert all(job.num_generated == 20 for job in jobs)
    assert_empty(engine)


def test_no_preemption_when_it_would_not_free_enough_cells() -> None:
    engine = make_engine(slots=4)
    chat, job = interactive(60, 20, token=3), batch(10, 20)
    add_all(engine, chat, job)
    engine.step()
    engine.add(large := interactive(100, 5, token=4))
    engine.step()
    assert not large.started_at
    assert engine.scheduler.preemptions == 0
    run_until(engine, chat, job, large)


def test_further_choices_start_when_the_prompt_is_prefilled() -> None:
    engine = make_engine(slots=4)
    first = interactive(60, 40)
    second = interactive(60, 40)
    second.parent = first
    add_all(engine, first, second)
    for _ in range(4):
        engine.step()
    assert 0 < first.num_generated < 4
    assert second.num_generated > 0
    run_until(engine, first, second)


def test_batch_never_preempts_and_waits_for_interactive() -> None:
    engine = make_engine(slots=1)
    add_all(engine, interactive(5, 20), batch(5, 5))
    job = batch(5, 5)
    question = interactive(5, 20)
    add_all(engine, job, question)
    run_until(engine, question)
    assert not job.started_at
    assert engine.scheduler.preemptions == 0
    run_until(engine, job)


def test_batch_advances_between_interactive_requests() -> None:
    engine = make_engine(slots=1)
    job = batch(60, 20)
    engine.add(job)
    for _ in range(100):
        if job.finish_reason is not None:
            break
        engine.step()
        engine.add(question := interactive(5, 3))
        run_until(engine, question)
    assert job.num_generated == 20


def test_preemption_for_cells_takes_batch_before_interactive() -> None:
    engine = make_engine(slots=3)
    job = batch(30, 60)
    engine.add(job)
    engine.step()
    chats = [interactive(20, 60, token=token) for token in (3, 4)]
    add_all(engine, *chats)
    while not engine.scheduler.preemptions:
        engine.step()
    assert job.slot == -1
    assert all(chat.slot >= 0 for chat in chats)
    run_until(engine, *chats)
    run_until(engine, job)
    assert job.num_generated == 60
    assert_empty(engine)


def test_small_requests_overtake_a_large_one_a_bounded_number_of_times() -> None:
    engine = make_engine(slots=4)
    add_all(engine, running := interactive(50, 70, token=3))
    engine.step()
    large = interactive(100, 5, token=4)
    engine.add(large)
    smalls: list[Sequence] = []
    while large.finish_reason is None:
        smalls.append(small := interactive(3, 1, token=5))
        engine.add(small)
        engine.step()
        assert len(smalls) < 500
    before = [small for small in smalls if 0 < small.started_at < large.started_at]
    assert len(before) == MAX_PASSED
    run_until(engine, running, *smalls)
    assert_empty(engine)


def test_short_prompt_is_prefilled_beside_a_long_one() -> None:
    engine = make_engine(context=4096, capacity=8192, slots=4, batch=64)
    document = interactive(2000, 5, token=3)
    engine.add(document)
    engine.step()
    question = interactive(30, 5, token=4)
    engine.add(question)
    engine.step()
    assert question.num_generated == 1
    assert document.num_computed > 64
    run_until(engine, document)


def test_short_prompt_waits_for_a_bounded_part_of_a_long_one() -> None:
    engine = make_engine(context=4096, capacity=8192, slots=4, batch=512)
    document = interactive(2000, 5, token=3)
    question = interactive(30, 5, token=4)
    add_all(engine, document, question)
    engine.step()
    assert question.num_generated == 1
    # The prefill budget beside running answers before anything is measured.
    assert document.num_computed + 30 == 64


def test_long_prompt_advances_while_short_ones_keep_arriving() -> None:
    engine = make_engine(context=4096, capacity=8192, slots=8, batch=64)
    document = interactive(1000, 1, token=3)
    engine.add(document)
    steps = 0
    while document.finish_reason is None:
        for token in range(4, 10):
            if len(engine.scheduler.running) < 8:
                engine.add(interactive(60, 1, token=token))
        engine.step()
        steps += 1
        assert steps < 1000 / 16 + 10


def test_cache_lookup_is_not_repeated_for_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine(slots=4)
    searches = 0
    search = CellCache.match

    def counting(cache: CellCache, tokens: Tokens, minimum: int = MIN_SHARED) -> Prefix:
        nonlocal searches
        searches += 1
        return search(cache, tokens, minimum)

    monkeypatch.setattr(CellCache, "match", counting)
    add_all(engine, interactive(60, 40), *(interactive(100, 1, token=t) for t in range(4, 10)))
    engine.admit()
    engine.step()
    before = searches
    for _ in range(20):
        engine.admit()
        engine.step()
    assert searches == before


@dataclass(frozen=True)
class Arrival:
    """One request of the property test."""

    at: int
    prompt: int
    max_tokens: int
    choices: int
    client: str
    priority: Priority
    cancelled_at: int | None


ARRIVALS = st.builds(
    Arrival,
    at=st.integers(0, 60),
    prompt=st.integers(1, CONTEXT - 1),
    max_tokens=st.integers(1, 40),
    choices=st.integers(1, 3),
    client=st.sampled_from("abc"),
    priority=st.sampled_from(Priority),
    cancelled_at=st.one_of(st.none(), st.integers(0, 120)),
)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    arrivals=st.lists(ARRIVALS, min_size=1, max_size=20),
    slots=st.integers(1, 5),
    batch_tokens=st.integers(1, 64),
    capacity=st.integers(CONTEXT, 3 * CONTEXT),
    can_fork=st.booleans(),
)
def test_random_load_completes_and_leaks_nothing(
    arrivals: list[Arrival], slots: int, batch_tokens: int, capacity: int, can_fork: bool
) -> None:
    engine = make_engine(slots=slots, batch=batch_tokens, capacity=capacity)
    runner = engine.runner
    assert isinstance(runner, ScriptedModelRunner)
    runner.can_fork = can_fork
    groups = [_choices(number, arrival) for number, arrival in enumerate(arrivals)]
    work = sum(a.choices * (a.prompt + a.max_tokens) for a in arrivals)
    step = 0
    while step <= 120 or engine.has_work:
        for group, arrival in zip(groups, arrivals, strict=True):
            if arrival.at == step:
                add_all(engine, *group)
            if arrival.cancelled_at is not None and step == max(arrival.at, arrival.cancelled_at):
                for sequence in group:
                    engine.finish(sequence, FinishReason.CANCELLED)
        if engine.has_work:
            engine.step()
        scheduler = engine.scheduler
        assert len(scheduler.running) <= slots
        assert runner.free_cells == capacity - scheduler.kv.used - scheduler.kv.kept
        running = {sequence.slot for sequence in scheduler.running}
        assert len(running) == len(scheduler.running)
        step += 1
        assert step < 200 + 4 * work, "a request starves"
    assert_empty(engine)
    for group, arrival in zip(groups, arrivals, strict=True):
        for sequence in group:
            assert sequence.slot == -1
            if sequence.finish_reason is not FinishReason.CANCELLED:
                length = min(arrival.max_tokens, CONTEXT - arrival.prompt)
                generated = bytes(sequence.token_ids[arrival.prompt :]).decode()
                assert generated == REPLY[:length]


def _choices(number: int, arrival: Arrival) -> list[Sequence]:
    parent: Sequence | None = None
    group: list[Sequence] = []
    for index in range(arrival.choices):
        sequence = Sequence(
            str(number),
            index,
            [number % 3] * arrival.prompt,
            SamplingParams(),
            arrival.max_tokens,
            priority=arrival.priority,
            client=arrival.client,
            parent=parent,
            arrived_at=float(number),
        )
        parent = parent or sequence
        group.append(sequence)
    return group
