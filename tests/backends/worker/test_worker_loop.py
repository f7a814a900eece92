"""`WorkerLoop`: preparation thread and step thread, with failing and slow prompts."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import msgspec
import pytest

from ingle.backends.base.events import Delta, Event, Finished, FinishReason, Started
from ingle.backends.base.kv_page_map import KVPageMap
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.model_runner import StepStopped
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.ngram_drafter import NgramDrafter
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner
from ingle.backends.text.answers.answer_format import AnswerFormats
from ingle.backends.text.prompts.prompt_builder import Prompt, PromptBuilder
from ingle.backends.worker.inbox import Inbox
from ingle.backends.worker.model_loader import load_model
from ingle.backends.worker.worker_loop import WorkerLoop
from ingle.backends.worker.worker_protocol import (
    Cancel,
    Drain,
    DropAdapter,
    FromWorker,
    Outputs,
    PagesReport,
    Rejected,
    WatchPages,
)

MakeSpec = Callable[..., LoadSpec]


class ScriptedPrompts(PromptBuilder):
    """Is slow for prompts that say so, and fails for others."""

    def __init__(self, *, fails_to_prepare: bool = False) -> None:
        super().__init__(ByteTokenizer(), None, context=512)
        self._fails_to_prepare = fails_to_prepare

    def prepare(self) -> None:
        if self._fails_to_prepare:
            raise OSError("no process can be started")

    def build(self, request: GenerateRequest) -> Prompt:
        if request.prompt == "slow":
            time.sleep(0.2)
        if request.prompt == "quick":
            time.sleep(0.002)
        if request.prompt == "fail":
            raise OSError("no process can be started")
        return super().build(request)


@contextmanager
def running(
    spec: LoadSpec, prompts: ScriptedPrompts, engine: Engine | None = None
) -> Generator[tuple[Inbox, queue.Queue[FromWorker]]]:
    inbox: Inbox = queue.SimpleQueue()
    sent: queue.Queue[FromWorker] = queue.Queue()
    engine = engine or Engine(ScriptedModelRunner(spec))
    forms = AnswerFormats(ByteTokenizer(), None)
    loop = WorkerLoop(engine, ByteTokenizer(), prompts, forms, sent.put, inbox, spec)
    thread = threading.Thread(target=loop.run)
    thread.start()
    yield inbox, sent
    inbox.put(Drain())
    thread.join(10)
    assert not thread.is_alive()


def wait_for_end(
    sent: queue.Queue[FromWorker], request_id: str, texts: list[str] | None = None
) -> Finished | Rejected:
    while True:
        message = sent.get(timeout=10)
        if isinstance(message, Rejected) and message.id == request_id:
            return message
        if isinstance(message, Outputs):
            for event in message.events:
                if texts is not None and isinstance(event, Delta):
                    texts.append(event.text)
                if isinstance(event, Finished) and event.id == request_id:
                    return event


@pytest.mark.parametrize("fails_to_prepare", [False, True])
def test_text_pipeline_error_ends_only_its_request(
    scripted_spec: MakeSpec, capfd: pytest.CaptureFixture[str], fails_to_prepare: bool
) -> None:
    prompts = ScriptedPrompts(fails_to_prepare=fails_to_prepare)
    with running(scripted_spec(), prompts) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="fail"))
        failed = wait_for_end(sent, "a")
        assert isinstance(failed, Rejected)
        assert failed.code == "backend_error"
        assert "no process can be started" in failed.message
        inbox.put(GenerateRequest(id="b", prompt="fine"))
        assert isinstance(wait_for_end(sent, "b"), Finished)
    assert "no process can be started" in capfd.readouterr().err


def test_queue_time_counts_from_arrival(scripted_spec: MakeSpec) -> None:
    with running(scripted_spec(), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="slow"))
        inbox.put(GenerateRequest(id="b", prompt="behind it"))
        end = wait_for_end(sent, "b")
        assert isinstance(end, Finished)
        assert end.queue_seconds > 0.15


@pytest.mark.slow
def test_prepared_prompt_joins_the_next_step(scripted_spec: MakeSpec, tmp_path: Path) -> None:
    trace = tmp_path / "trace"

    def steps() -> int:
        """Return the number of step starts and ends so far."""
        return len(trace.read_text().split()) if trace.exists() else 0

    spec = scripted_spec(step_seconds=0.2, trace=str(trace))
    with running(msgspec.structs.replace(spec, batch=64), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="long", prompt="x" * 400))
        while steps() != 3:  # the second step has started
            time.sleep(0.005)
        inbox.put(GenerateRequest(id="a", prompt="quick"))
        while not _started(sent.get(timeout=10), "a"):
            pass
        assert steps() <= 5
        inbox.put(Cancel("long"))
        wait_for_end(sent, "a")


def _started(message: FromWorker, request_id: str) -> bool:
    events = message.events if isinstance(message, Outputs) else []
    return any(isinstance(event, Started) and event.id == request_id for event in events)


def test_request_cancelled_during_preparation_never_starts(scripted_spec: MakeSpec) -> None:
    with running(scripted_spec(), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="slow"))
        inbox.put(Cancel("a"))
        inbox.put(GenerateRequest(id="b", prompt="fine"))
        assert isinstance(wait_for_end(sent, "b"), Finished)
    events = [e for m in sent.queue if isinstance(m, Outputs) for e in m.events]
    assert not [event for event in events if event.id == "a"]


def test_drain_finishes_requests_in_preparation(scripted_spec: MakeSpec) -> None:
    with running(scripted_spec(), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="slow"))
        inbox.put(Drain())
        inbox.put(GenerateRequest(id="b", prompt="late"))
        late = wait_for_end(sent, "b")
        assert isinstance(late, Rejected)
        assert late.code == "model_unloading"
        assert isinstance(wait_for_end(sent, "a"), Finished)


def test_stop_string_at_the_last_token_has_finish_reason_stop(scripted_spec: MakeSpec) -> None:
    with running(scripted_spec(reply="abcdef"), ScriptedPrompts()) as (inbox, sent):
        request = GenerateRequest(id="a", prompt="x", max_tokens=3, stop=["bc"])
        inbox.put(request)
        end = wait_for_end(sent, "a")
        assert isinstance(end, Finished)
        assert (end.reason, end.completion_tokens) == ("stop", 3)


def test_more_choices_than_slots_complete(scripted_spec: MakeSpec) -> None:
    with running(scripted_spec(slots=2, reply="ab"), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="xyz", n=9))
        ends: list[int] = []
        while len(ends) < 9:
            message = sent.get(timeout=10)
            if isinstance(message, Outputs):
                ends += [event.index for event in message.events if isinstance(event, Finished)]
        assert sorted(ends) == list(range(9))


@pytest.mark.parametrize("prompt", [1, 510, 511])
def test_whole_context_is_used(scripted_spec: MakeSpec, prompt: int) -> None:
    with running(scripted_spec(context=512, reply="x" * 600), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt=[1] * prompt))
        end = wait_for_end(sent, "a")
        assert isinstance(end, Finished)
        assert (end.reason, end.completion_tokens) == ("length", 512 - prompt)


@pytest.mark.parametrize("reply", ["x" * 600, ""], ids=["continues", "ends at once"])
def test_max_tokens_zero_caches_the_prompt(scripted_spec: MakeSpec, reply: str) -> None:
    prompt = [1] * 300
    with running(scripted_spec(context=512, reply=reply), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="warm", prompt=prompt, max_tokens=0, n=2))
        events = events_of(sent, "warm")
        while len([event for event in events if isinstance(event, Finished)]) < 2:
            events += events_of(sent, "warm")
        assert {type(event) for event in events} == {Started, Finished}
        for end in (event for event in events if isinstance(event, Finished)):
            assert (end.reason, end.completion_tokens) == ("length", 0)
        inbox.put(GenerateRequest(id="next", prompt=[*prompt, 2]))
        started = next(event for event in events_of(sent, "next") if isinstance(event, Started))
        assert (started.prompt_tokens, started.cached_tokens) == (301, 300)


def test_request_context_limits_the_answer(scripted_spec: MakeSpec) -> None:
    with running(scripted_spec(context=512, reply="x" * 600), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt=[1] * 60, max_context=100))
        end = wait_for_end(sent, "a")
        assert isinstance(end, Finished)
        assert (end.reason, end.completion_tokens) == ("length", 40)
        inbox.put(GenerateRequest(id="b", prompt=[1] * 100, max_context=100))
        end = wait_for_end(sent, "b")
        assert isinstance(end, Rejected)
        assert (end.code, end.context) == ("context_length_exceeded", 100)
        inbox.put(GenerateRequest(id="c", prompt=[1] * 500, max_context=10_000))
        end = wait_for_end(sent, "c")
        assert isinstance(end, Finished)
        assert (end.reason, end.completion_tokens) == ("length", 12)


def test_answer_ends_at_its_time_limit(scripted_spec: MakeSpec) -> None:
    spec = scripted_spec(context=512, reply="x" * 600, step_seconds=0.01)
    with running(spec, ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="x", max_seconds=0.1))
        end = wait_for_end(sent, "a")
        assert isinstance(end, Finished)
        assert end.reason == "length"
        assert 1 <= end.completion_tokens < 500
        inbox.put(GenerateRequest(id="b", prompt="x", max_seconds=0.0, max_tokens=9))
        end = wait_for_end(sent, "b")
        assert isinstance(end, Finished)
        assert 1 <= end.completion_tokens <= 9


def frames_until(sent: queue.Queue[FromWorker], last: Callable[[Event], bool]) -> list[list[Event]]:
    """Return the events of each frame, up to the one that ends with such an event."""
    frames: list[list[Event]] = []
    while not (frames and last(frames[-1][-1])):
        message = sent.get(timeout=10)
        if isinstance(message, Outputs):
            frames.append(message.events)
    return frames


@pytest.mark.parametrize(("join_seconds", "merged"), [(0.0, False), (60.0, True)])
def test_short_steps_share_a_frame_except_first_token_and_end(
    scripted_spec: MakeSpec,
    monkeypatch: pytest.MonkeyPatch,
    join_seconds: float,
    merged: bool,
) -> None:
    monkeypatch.setattr("ingle.backends.worker.worker_loop._JOIN_SECONDS", join_seconds)
    with running(scripted_spec(reply="abcdef"), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="x"))
        frames = frames_until(sent, lambda event: isinstance(event, Finished))
    texts = ["".join(e.text for e in events if isinstance(e, Delta)) for events in frames]
    assert texts == (["", "a", "bcdef"] if merged else ["", *"abcdef", ""])
    assert isinstance(frames[0][0], Started)


def test_pending_events_are_sent_before_a_prefill(
    scripted_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingle.backends.worker.worker_loop._JOIN_SECONDS", 60.0)
    spec = scripted_spec(reply="x" * 300, step_seconds=0.002)
    with running(spec, ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="x"))
        assert len(frames_until(sent, lambda event: isinstance(event, Delta))) == 2
        time.sleep(0.02)
        inbox.put(GenerateRequest(id="b", prompt="y" * 200))
        (frame,) = frames_until(sent, lambda event: isinstance(event, Started))
        assert [event.id for event in frame] == ["a"] * (len(frame) - 1) + ["b"]
        assert len(frame) > 2
        inbox.put(Cancel("a"))
        inbox.put(Cancel("b"))


def speculating(spec: LoadSpec) -> Engine:
    """Return an engine that drafts repetitions."""

    class RepeatingSpeculator:
        def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
            drafter = NgramDrafter(512)
            return {s: drafter.propose(s, min(6, room)).cut(6) for s in decoding}

        def waits(self, decoding: list[Sequence], room: int) -> bool:
            return True

        def observe(self, batch: Batch, seconds: float) -> None: ...

        def forget(self, sequence: Sequence) -> None: ...

    return Engine(ScriptedModelRunner(spec), RepeatingSpeculator())


@pytest.mark.parametrize("stop", ["bc", "cab", "d", "xyz"])
@pytest.mark.parametrize("max_tokens", [1, 7, 12, 40])
def test_stop_strings_and_limits_within_drafts(
    scripted_spec: MakeSpec, stop: str, max_tokens: int
) -> None:
    """Text and counts equal those without drafts, whichever draft token ends the answer."""
    spec = scripted_spec(reply="abcabcabcabcabcdabcabc" * 3)
    request = GenerateRequest(id="a", prompt="x", max_tokens=max_tokens, stop=[stop])

    def ask(engine: Engine | None) -> tuple[str, Finished]:
        with running(spec, ScriptedPrompts(), engine) as (inbox, sent):
            inbox.put(request)
            end = wait_for_end(sent, "a", texts := [])
            assert isinstance(end, Finished)
            return "".join(texts), end

    text, plain = ask(None)
    drafted_text, drafted = ask(speculating(spec))
    assert drafted_text == text
    assert (drafted.reason, drafted.completion_tokens) == (plain.reason, plain.completion_tokens)
    assert drafted.accepted_tokens <= min(drafted.drafted_tokens, drafted.completion_tokens)
    if plain.completion_tokens > 10:
        assert drafted.accepted_tokens > 3


def test_request_can_disable_speculation(scripted_spec: MakeSpec) -> None:
    spec = msgspec.structs.replace(scripted_spec(reply="abc" * 60), speculation="ngram")
    inbox: Inbox = queue.SimpleQueue()
    sent: queue.Queue[FromWorker] = queue.Queue()
    with load_model(spec, sent.put, inbox) as (loop, info):
        assert info.speculation == "ngram"
        thread = threading.Thread(target=loop.run)
        thread.start()
        inbox.put(GenerateRequest(id="with", prompt="x"))
        assert cast("Finished", wait_for_end(sent, "with")).accepted_tokens > 50
        inbox.put(GenerateRequest(id="without", prompt="x", speculation=False))
        assert cast("Finished", wait_for_end(sent, "without")).drafted_tokens == 0
        inbox.put(Drain())
        thread.join(10)


def events_of(sent: queue.Queue[FromWorker], request_id: str) -> list[Event | Rejected]:
    """Return all events of one request."""
    events: list[Event | Rejected] = []
    while not events or not isinstance(events[-1], Finished | Rejected):
        message = sent.get(timeout=10)
        if isinstance(message, Rejected) and message.id == request_id:
            events.append(message)
        if isinstance(message, Outputs):
            events += [event for event in message.events if event.id == request_id]
    return events


def test_logprobs_and_token_bytes_are_sent_with_the_text(scripted_spec: MakeSpec) -> None:
    with running(scripted_spec(reply="né!"), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="x", logprobs=2))
        deltas = [event for event in events_of(sent, "a") if isinstance(event, Delta)]
    assert "".join(delta.text for delta in deltas) == "né!"
    for delta in deltas:
        assert delta.logprobs is not None
        assert [token.token_id for token in delta.logprobs] == delta.token_ids
        assert delta.token_bytes == {token: bytes((token,)) for token in delta.token_ids}
    assert [token for delta in deltas for token in delta.token_ids] == list("né!".encode())


def test_no_logprobs_without_request(scripted_spec: MakeSpec) -> None:
    with running(scripted_spec(), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="x"))
        deltas = [event for event in events_of(sent, "a") if isinstance(event, Delta)]
    assert {(delta.logprobs, delta.token_bytes) for delta in deltas} == {(None, None)}


def test_answer_ends_when_its_grammar_is_complete(scripted_spec: MakeSpec) -> None:
    """The rest of the script is cut off, and no token is taken for EOG."""
    grammar = Grammar(GrammarKind.REGEX, "[a-z]{3}[0-9]")
    with running(scripted_spec(reply="abc1 and more"), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="x", grammar=grammar, n=2))
        events = events_of(sent, "a")
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.reason, end.completion_tokens) == (FinishReason.STOP, 4)
    text = "".join(e.text for e in events if isinstance(e, Delta) and e.index == end.index)
    assert text == "abc1"


def test_grammar_is_ignored_when_no_tokens_are_generated(scripted_spec: MakeSpec) -> None:
    # Any single character completes it.
    grammar = Grammar(GrammarKind.REGEX, "[a-z]")
    with running(scripted_spec(reply="x"), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="x", grammar=grammar, max_tokens=0))
        end = wait_for_end(sent, "a")
        assert isinstance(end, Finished)
        assert (end.reason, end.completion_tokens) == ("length", 0)


def test_grammar_error_ends_only_its_request(scripted_spec: MakeSpec) -> None:
    replies = {"bad": "ab?", "good": "abc"}
    grammar = Grammar(GrammarKind.REGEX, "[a-z]{3,9}")
    with running(scripted_spec(replies=replies), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="bad", grammar=grammar, n=3))
        events = events_of(sent, "a")
        failed = events[-1]
        assert isinstance(failed, Rejected)
        assert failed.code == "grammar_failed"
        assert "the script says something else" in failed.message
        texts = [event.text for event in events if isinstance(event, Delta)]
        assert set("".join(texts)) <= set("ab"), "what was right before came out"
        inbox.put(GenerateRequest(id="b", prompt="good", grammar=grammar))
        end = events_of(sent, "b")[-1]
        assert isinstance(end, Finished)
        assert end.completion_tokens == 4, "three letters, and the token that ends them"


def test_impossible_grammar_is_rejected_before_generation(scripted_spec: MakeSpec) -> None:
    grammar = Grammar(GrammarKind.JSON_SCHEMA, '{"enum": []}', param="response_format")
    with running(scripted_spec(), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="x", grammar=grammar))
        (refused,) = events_of(sent, "a")
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.param) == ("invalid_schema", "response_format")


def pages_until(sent: queue.Queue[FromWorker], wanted: Callable[[KVPageMap], bool]) -> KVPageMap:
    """Return the first page map that meets the condition."""
    while True:
        message = sent.get(timeout=10)
        if isinstance(message, PagesReport) and wanted(message.pages):
            return message.pages


def test_page_map_is_sent_only_while_watched(scripted_spec: MakeSpec) -> None:
    made = 0
    engine = Engine(ScriptedModelRunner(scripted_spec(reply="x" * 40, step_seconds=0.002)))
    make = engine.page_map

    def count_and_make() -> KVPageMap:
        nonlocal made
        made += 1
        return make()

    engine.page_map = count_and_make
    text = "a prompt that is long enough to be kept for the next one"
    with running(scripted_spec(), ScriptedPrompts(), engine) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt=text, conversation="first"))
        wait_for_end(sent, "a")
        assert made == 0
        inbox.put(WatchPages(True))
        (group,) = pages_until(sent, lambda pages: bool(pages.groups)).groups
        assert (group.conversations, group.running) == (["first"], False)
        inbox.put(GenerateRequest(id="b", prompt=text, conversation="second"))
        wait_for_end(sent, "b")
        shared = ["second", "first"]
        pages_until(sent, lambda pages: any(g.conversations == shared for g in pages.groups))
        inbox.put(WatchPages(False))
        inbox.put(GenerateRequest(id="d", prompt=text))
        wait_for_end(sent, "d")
        made = 0
        inbox.put(GenerateRequest(id="c", prompt=text))
        wait_for_end(sent, "c")
        assert made == 0


def test_scores_of_the_prompt_come_with_its_start(scripted_spec: MakeSpec) -> None:
    with running(scripted_spec(reply="né!"), ScriptedPrompts()) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="What?", prompt_logprobs=2))
        started, *rest = events_of(sent, "a")
        inbox.put(GenerateRequest(id="b", prompt="Who?", prompt_logprobs=0, max_tokens=0))
        alone = events_of(sent, "b")
    assert isinstance(started, Started)
    assert (started.prompt_tokens, started.cached_tokens) == (6, 0)
    assert started.scores is not None
    assert started.scores.token_ids[1:] == list(b"What?")  # after BOS
    assert [token.token_id for token in started.scores.logprobs] == list(b"What?")
    assert all(token.top for token in started.scores.logprobs)
    assert started.scores.token_bytes.items() >= {byte: bytes((byte,)) for byte in b"What?"}.items()
    deltas = [event for event in rest if isinstance(event, Delta)]
    assert "".join(delta.text for delta in deltas) == "né!"
    assert {delta.logprobs is None for delta in deltas} == {True}
    assert [type(event) for event in alone] == [Started, Finished]


class DroppingRunner(ScriptedModelRunner):
    """Records which adapters it freed, and whether something was computed then."""

    def __init__(self, spec: LoadSpec) -> None:
        super().__init__(spec)
        self.computing = False
        self.dropped: queue.Queue[tuple[Path, bool]] = queue.Queue()

    def launch(self, batch: Batch) -> None:
        self.computing = True
        super().launch(batch)

    def forget(self, sequence: Sequence) -> None:
        self.computing = False
        super().forget(sequence)

    def drop_adapter(self, folder: Path) -> None:
        self.dropped.put((folder, self.computing))


def test_adapter_is_dropped_once_nothing_is_computed(scripted_spec: MakeSpec) -> None:
    spec = scripted_spec()
    runner = DroppingRunner(spec)
    with running(spec, ScriptedPrompts(), Engine(runner)) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="slow"))
        inbox.put(DropAdapter("/adapters/one"))
        assert isinstance(wait_for_end(sent, "a"), Finished)
        assert runner.dropped.get(timeout=10) == (Path("/adapters/one"), False)
        inbox.put(DropAdapter("/adapters/two"))
        assert runner.dropped.get(timeout=10) == (Path("/adapters/two"), False)


class StoppedRunner(ScriptedModelRunner):
    """Its first step ends only once it is to stop."""

    is_first = True

    def launch(self, batch: Batch) -> None:
        if self.is_first:
            self.is_first = False
            assert batch.stops is not None
            while not batch.stops():
                time.sleep(0.001)
            raise StepStopped
        super().launch(batch)


def long_steps(spec: LoadSpec) -> Engine:
    """Return an engine that expects every step of 32 tokens and more to be long."""
    engine = Engine(StoppedRunner(spec))
    measured = Batch(num_tokens=64)
    engine.scheduler.mark_launched(measured)
    engine.scheduler.update(measured, [], 64.0)
    return engine


def wait_for_start(sent: queue.Queue[FromWorker], request_id: str) -> None:
    while True:
        message = sent.get(timeout=10)
        if isinstance(message, Outputs) and any(
            isinstance(event, Started) and event.id == request_id for event in message.events
        ):
            return


def test_cancel_stops_the_long_step_of_its_request(scripted_spec: MakeSpec) -> None:
    spec = scripted_spec()
    engine = long_steps(spec)
    with running(spec, ScriptedPrompts(), engine) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="x" * 100))
        wait_for_start(sent, "a")
        inbox.put(Cancel("a"))
    assert engine.gauges().steps_total == 0


def test_new_request_stops_the_first_half_of_a_long_step(scripted_spec: MakeSpec) -> None:
    spec = scripted_spec()
    engine = long_steps(spec)
    with running(spec, ScriptedPrompts(), engine) as (inbox, sent):
        inbox.put(GenerateRequest(id="a", prompt="x" * 40, max_tokens=1))
        wait_for_start(sent, "a")
        inbox.put(GenerateRequest(id="b", prompt="y" * 33, max_tokens=1))
        assert isinstance(wait_for_end(sent, "b"), Finished)
        assert isinstance(wait_for_end(sent, "a"), Finished)
