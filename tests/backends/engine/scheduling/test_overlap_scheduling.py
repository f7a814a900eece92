"""Overlap scheduling: which batches are launched before the previous one is collected."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ingle.backends.base.events import Delta, Finished, FinishReason
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest, Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch, Sampled
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.prescribed_tokens import PrescribedTokens
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.text.answers.answer_format import AnswerFormats
from ingle.backends.text.prompts.prompt_builder import PromptBuilder
from ingle.backends.worker.inbox import Inbox
from ingle.backends.worker.worker_loop import WorkerLoop
from ingle.backends.worker.worker_protocol import Drain, FromWorker, Outputs

MakeRunner = Callable[..., Any]


class Log:
    """The runner's calls in order: "+3" for three tokens launched, "-" for a collect."""

    def __init__(self, runner: Any) -> None:
        self.entries: list[str] = []
        launch, collect = runner.launch, runner.collect

        def logged_launch(batch: Batch) -> None:
            self.entries.append(f"+{batch.num_tokens}")
            launch(batch)

        def logged_collect() -> list[Sampled]:
            self.entries.append("-")
            return collect()

        runner.launch, runner.collect = logged_launch, logged_collect

    @property
    def text(self) -> str:
        return " ".join(self.entries)


@pytest.fixture
def runner(number_runner: MakeRunner) -> Any:
    return number_runner(block_size=16, num_blocks=64, context=512, ahead=True)


@pytest.fixture
def log(runner: Any) -> Log:
    return Log(runner)


def ask(
    runner: Any,
    length: int = 40,
    most: int = 5,
    sampling: SamplingParams | None = None,
    **fields: Any,
) -> Sequence:
    """Make a prompt whose answer has no EOG token within `most` tokens."""
    for seed in range(100):
        prompt = [1 + (seed + i * i) % 40 for i in range(length)]
        if runner.eog not in runner.answer(prompt, most):
            return Sequence("r", 0, prompt, sampling or SamplingParams(), most, **fields)
    raise AssertionError("all end")


def run(engine: Engine) -> None:
    while engine.has_work:
        engine.step()


def generated(sequence: Sequence) -> list[int]:
    return sequence.token_ids[sequence.prompt_length :]


def test_next_batch_is_launched_before_the_previous_is_collected(runner: Any, log: Log) -> None:
    """No batch is launched after the last token, as `max_tokens` is known in advance."""
    engine = Engine(runner)
    sequence = ask(runner)
    engine.add(sequence)
    assert len(engine.step()) == 1
    assert (sequence.num_generated, sequence.num_awaited, sequence.num_in_flight) == (1, 1, 1)
    run(engine)
    assert log.text == "+40 +1 - +1 - +1 - +1 - -"
    assert generated(sequence) == runner.answer(sequence.token_ids[:40], 5)
    assert engine.gauges().steps_total == 5


def test_batch_ahead_has_no_drafts(runner: Any, log: Log) -> None:
    """Also where the speculator has some: they would continue tokens that are not known."""

    class Hasty:
        def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
            return dict.fromkeys(decoding, (7,))

        def waits(self, decoding: list[Sequence], room: int) -> bool:
            return False

        def observe(self, batch: Batch, seconds: float) -> None: ...

        def forget(self, sequence: Sequence) -> None: ...

    engine = Engine(runner, Hasty())
    engine.add(ask(runner))
    run(engine)
    assert log.text == "+40 +1 - +1 - +1 - +1 - -"


def test_no_batch_is_launched_beyond_a_full_context(number_runner: MakeRunner) -> None:
    runner = number_runner(block_size=16, num_blocks=4, context=64, ahead=True)
    log, engine = Log(runner), Engine(runner)
    sequence = ask(runner, length=61, most=3)
    sequence.max_tokens = None
    engine.add(sequence)
    run(engine)
    assert len(sequence.token_ids) == 64
    assert log.text == "+61 +1 - +1 - -"


def test_token_in_flight_after_eog_is_discarded(runner: Any, log: Log) -> None:
    engine = Engine(runner)
    sequence = ask(runner, most=8)
    runner.eog = runner.answer(sequence.token_ids, 8)[2]
    length = runner.answer(sequence.token_ids, 8).index(runner.eog) + 1
    engine.add(sequence)
    while sequence.finish_reason is None:
        engine.step()
    assert engine.has_work, "the token too many is on its way"
    assert engine.gauges().running == 0
    assert sequence.slot >= 0, "and still written to pages that no other sequence has"
    assert engine.step() == []
    assert not engine.has_work
    assert log.entries.count("+1") == length
    assert len(generated(sequence)) == engine.gauges().completion_tokens_total == length
    assert engine.gauges().kv_used == 0
    kept = engine.scheduler.kv.match(np.asarray([*sequence.token_ids, 7, 7], np.int32))
    assert kept.length == len(sequence.token_ids) - 1


def test_slot_of_a_cancelled_sequence_is_freed_after_its_batch(
    number_runner: MakeRunner,
) -> None:
    runner = number_runner(block_size=16, num_blocks=64, context=512, slots=1, ahead=True)
    engine = Engine(runner)
    first, second = ask(runner, most=20), ask(runner, length=60, most=4)
    engine.add(first)
    engine.add(second)
    engine.step()
    engine.finish(first, FinishReason.CANCELLED)
    assert engine.admit() == []
    engine.step()
    assert engine.admit() == [second]
    run(engine)
    assert generated(first) == runner.answer(first.token_ids[:40], 1)
    assert generated(second) == runner.answer(second.token_ids[:60], 4)


def test_pages_of_a_cancelled_sequence_are_freed_after_its_batch(number_runner: MakeRunner) -> None:
    runner = number_runner(block_size=16, num_blocks=4, context=64, slots=2, ahead=True)
    engine = Engine(runner)
    first, second = ask(runner, length=50, most=9), ask(runner, length=55, most=4)
    second.token_ids[0] = 49
    engine.add(first)
    engine.step()
    engine.add(second)
    engine.finish(first, FinishReason.CANCELLED)
    assert engine.admit() == []
    engine.step()
    assert engine.admit() == [second]
    run(engine)
    expected = runner.answer(second.token_ids[:55], 4)
    assert generated(second) == expected


def test_prefilled_part_of_a_cancelled_prompt_stays_cached(runner: Any, log: Log) -> None:
    engine = Engine(runner)
    sequence = ask(runner, length=150)
    engine.add(sequence)
    engine.step()
    assert log.text == "+64 +64 -"
    engine.finish(sequence, FinishReason.CANCELLED)
    run(engine)
    again = ask(runner, length=150)
    engine.add(again)
    run(engine)
    assert again.cached_tokens == 128
    assert generated(again) == runner.answer(again.token_ids[:150], 5)


def test_sequence_with_a_batch_in_flight_is_not_preempted(number_runner: MakeRunner) -> None:
    runner = number_runner(block_size=16, num_blocks=64, context=512, slots=1, ahead=True)
    engine = Engine(runner)
    job, question = ask(runner, most=30, priority=Priority.BATCH), ask(runner, length=50, most=3)
    engine.add(job)
    engine.step()
    engine.add(question)
    assert engine.admit() == []
    assert engine.gauges().preemptions_total == 0
    engine.step()
    assert job.num_in_flight == 0, "no overlap while a request waits for the slot"
    assert engine.admit() == [question]
    assert engine.gauges().preemptions_total == 1
    run(engine)
    assert generated(question) == runner.answer(question.token_ids[:50], 3)
    assert generated(job) == runner.answer(job.token_ids[:40], 30)


PENALISED = SamplingParams(repeat_penalty=1.1)


@pytest.mark.parametrize("ahead", [False, True])
def test_force_tokens_inserts_tokens_into_a_paused_sequence(
    number_runner: MakeRunner, ahead: bool
) -> None:
    runner = number_runner(block_size=16, num_blocks=64, context=512, ahead=ahead)
    engine = Engine(runner)
    paused, other = ask(runner, most=30), ask(runner, length=33, most=30)
    prompt, forced = list(paused.token_ids), [5, 6, 7, 8]
    paused.pauses_at = 9
    runner.eog = -1
    engine.add(paused)
    engine.add(other)
    while paused.num_generated < 9:
        engine.step()
    assert paused.num_awaited == 0
    assert (other.num_in_flight > 0) is ahead, "no other sequence waits"
    assert engine.force_tokens(paused, forced) == forced
    paused.pauses_at = None
    run(engine)
    before = runner.answer(prompt, 9)
    assert generated(paused) == [*before, *forced, *runner.answer([*prompt, *before, *forced], 17)]
    assert generated(other) == runner.answer(other.token_ids[:33], 30)
    assert engine.gauges().kv_used == 0


@pytest.mark.parametrize(
    ("pause", "most", "expected"), [(9, 14, 4), (9, 13, 3), (9, 11, 1), (9, 10, 0)]
)
def test_force_tokens_respects_max_tokens(
    runner: Any, pause: int, most: int, expected: int
) -> None:
    engine = Engine(runner)
    sequence = ask(runner, most=most)
    sequence.pauses_at = pause
    runner.eog = -1
    engine.add(sequence)
    while sequence.num_generated < pause:
        engine.step()
    assert engine.force_tokens(sequence, [5, 6, 7, 8]) == [5, 6, 7, 8][:expected]
    run(engine)
    assert len(generated(sequence)) == most
    assert sequence.finish_reason is FinishReason.LENGTH


def test_force_tokens_leaves_room_for_one_sampled_token(number_runner: MakeRunner) -> None:
    runner = number_runner(block_size=16, num_blocks=64, context=64)
    engine = Engine(runner)
    sequence = ask(runner, length=33)
    sequence.max_tokens = None
    sequence.pauses_at = 9
    runner.eog = -1
    engine.add(sequence)
    while sequence.num_generated < 9:
        engine.step()
    forced = list(range(5, 45))
    assert engine.force_tokens(sequence, forced) == forced[: 64 - 33 - 9 - 1]
    run(engine)
    assert len(sequence.token_ids) == 64


def test_forced_tokens_follow_the_constraint(runner: Any) -> None:
    engine = Engine(runner)
    sequence = ask(runner)
    sequence.constraint = PrescribedTokens([5, 7, 8, 9], 40)
    assert engine.force_tokens(sequence, [5, 6, 7, 9, 8]) == [5, 7, 8]
    assert sequence.constraint.next == 9


def test_force_tokens_rejects_a_sequence_in_flight(runner: Any) -> None:
    engine = Engine(runner)
    sequence = ask(runner)
    engine.add(sequence)
    engine.step()
    with pytest.raises(ValueError, match="samples a token"):
        engine.force_tokens(sequence, [1])


def test_penalised_sequence_waits_for_each_sampled_token(runner: Any, log: Log) -> None:
    """Its prefill still overlaps."""
    engine = Engine(runner)
    engine.add(ask(runner, length=150, most=4, sampling=PENALISED))
    run(engine)
    assert log.text == "+64 +64 - +22 - - +1 - +1 - +1 -"


def test_sequence_beside_a_penalised_one_keeps_its_pace(runner: Any, log: Log) -> None:
    engine = Engine(runner)
    engine.add(ask(runner, length=20, most=4, sampling=PENALISED))
    engine.add(ask(runner, length=20, most=6))
    run(engine)
    assert log.text == "+40 - +2 - +2 - +2 +1 - +1 - -", "together until the first one ends"


def test_no_overlap_behind_a_long_step(runner: Any, log: Log) -> None:
    """A new request would have to wait for both steps."""
    engine = Engine(runner)
    engine.scheduler._chunks.observe(64, 640.0)  # pyright: ignore[reportPrivateUsage]
    engine.add(ask(runner))
    run(engine)
    assert log.text == "+32 - +8 - +1 - +1 - +1 - +1 -"


def test_drain_collects_batches_in_flight(runner: Any) -> None:
    engine = Engine(runner)
    sequence = ask(runner)
    engine.add(sequence)
    assert engine.drain() == []
    engine.step()
    (output,) = engine.drain()
    assert output.token_ids == generated(sequence)[1:2]
    assert sequence.num_in_flight == 0
    run(engine)
    assert generated(sequence) == runner.answer(sequence.token_ids[:40], 5)


def test_step_time_is_measured_between_collects(
    runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time since the launch would include the wait for the batch before."""
    engine = Engine(runner)
    now, seconds = 0.0, list[float]()
    launch, collect, update = runner.launch, runner.collect, engine.scheduler.update

    def slow_launch(batch: Batch) -> None:
        nonlocal now
        now += 0.001
        launch(batch)

    def slow_collect() -> list[Sampled]:
        nonlocal now
        now += 0.01
        return collect()

    def recorded(batch: Batch, sampled: list[Sampled], taken: float) -> Any:
        seconds.append(taken)
        return update(batch, sampled, taken)

    runner.launch, runner.collect = slow_launch, slow_collect
    monkeypatch.setattr("ingle.backends.engine.engine.time.monotonic", lambda: now)
    monkeypatch.setattr(engine.scheduler, "update", recorded)
    engine.add(ask(runner, most=4))
    run(engine)
    assert seconds == pytest.approx([0.012, 0.011, 0.011, 0.01])


@pytest.mark.parametrize("cut", [1, 2, 7])
def test_stop_strings_end_at_the_same_text_with_overlap(
    number_runner: MakeRunner, cut: int
) -> None:
    """The text layer finds a stop string after the next token is already computed."""
    answers: list[tuple[str, int]] = []
    for ahead in (False, True):
        runner = number_runner(block_size=16, num_blocks=64, context=512, ahead=ahead)
        runner.eog = -1
        text = bytes(runner.answer(list(b"What?"), 40)).decode()
        tokenizer = ByteTokenizer()
        prompts = PromptBuilder(tokenizer, None, context=512)
        inbox: Inbox = queue.SimpleQueue()
        sent: queue.SimpleQueue[FromWorker] = queue.SimpleQueue()
        engine = Engine(runner)
        forms = AnswerFormats(tokenizer, None)
        spec = LoadSpec(engine="", path="", context=512)
        loop = WorkerLoop(engine, tokenizer, prompts, forms, sent.put, inbox, spec)
        thread = threading.Thread(target=loop.run)
        thread.start()
        for name in "ab":
            request = GenerateRequest(
                id=name, prompt=list(b"What?"), max_tokens=30, stop=[text[10 : 10 + cut]]
            )
            inbox.put(request)
        generated, ended = "", dict[str, Finished]()
        while len(ended) < 2:
            message = sent.get(timeout=10)
            for event in message.events if isinstance(message, Outputs) else ():
                if isinstance(event, Delta) and event.id == "a":
                    generated += event.text
                if isinstance(event, Finished):
                    ended[event.id] = event
        inbox.put(Drain())
        thread.join(10)
        assert not thread.is_alive()
        assert text.startswith(generated)
        assert ended["a"].completion_tokens == ended["b"].completion_tokens
        assert engine.gauges().kv_used == 0
        answers.append((generated, ended["a"].completion_tokens))
    assert answers[0] == answers[1]
