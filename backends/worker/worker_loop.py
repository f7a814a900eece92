"""The main loop of a worker process: requests become sequences, steps become events.

Two threads share the work: `RequestPreparer` prepares requests; the step thread owns the engine.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable
from contextlib import suppress

from ingle.models import failpoints
from ingle.models.model_task import ModelTask

from ..base.errors import BackendError, ContextExceeded, RequestRejected, WrongTask
from ..base.events import Event, Finished, FinishReason, Started, Tokenized, TokenLogprobs
from ..base.requests import GenerateRequest, TokenizeRequest
from ..engine.engine import Engine
from ..engine.scheduling.scheduler import SequenceOutput
from ..engine.sequence import Sequence
from ..text.answers.answer_format import AnswerForms
from ..text.answers.answer_output import AnswerOutput
from ..text.prompts.prompt_builder import PromptBuilder
from ..text.tokenization.tokenizer import Tokenizer
from .compute_lease import ComputeLease
from .request_preparer import Admitted, Arrival, Prepared, RequestPreparer, Stop
from .worker_protocol import (
    Cancel,
    Drain,
    Embed,
    FromWorker,
    Generate,
    Load,
    Outputs,
    Ping,
    Pong,
    Rejected,
    Rerank,
    Tokenize,
    ToWorker,
    Trim,
    WatchPages,
)
from .worker_reports import WorkerReports

_PREPARATION_SECONDS = 0.02
_JOIN_SECONDS = 0.016
_SAVE_AFTER = 2.0
"""Seconds of rest before what was computed is saved."""
_SAVE_SLICE = 0.05
_SAVE_PAUSE = 0.05
_DRAIN_SHARE = 0.5
"""Of the grace time, what running sequences get; the rest is for saving."""
_END_SHARE = 0.9


class Wake:
    """Tells the step thread to look again whether there is work."""


Inbox = queue.SimpleQueue[ToWorker | Admitted | Stop | Wake]
"""Filled from any thread: messages of the daemon, and what other threads have done."""


class WorkerLoop:
    """Serves one loaded model with what arrives in its inbox."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        prompts: PromptBuilder,
        forms: AnswerForms,
        send: Callable[[FromWorker], None],
        inbox: Inbox,
        lease: ComputeLease | None = None,
    ) -> None:
        """`send` is called from the thread of `run` only; each step is computed under `lease`."""
        self._engine = engine
        self._tokenizer = tokenizer
        self._send = send
        self._inbox = inbox
        self._lease = lease
        self._contended = False
        self._admitting: dict[str, Arrival] = {}
        self._admission = RequestPreparer(
            engine.runner, tokenizer, prompts, forms, is_wanted=self._is_admitting, done=inbox.put
        )
        self._running: dict[str, dict[Sequence, AnswerOutput]] = {}
        self._events: list[Event] = []
        self._urgent = False
        self._flushed_at = 0.0
        self._draining = False
        self._drain_until = math.inf
        self._end_by = math.inf
        self._worked_at = time.monotonic()
        self._stopping = False
        self._reports = WorkerReports(engine, send)

    def run(self) -> None:
        """Serve until stopped, or until drained."""
        self._admission.start()
        try:
            while not self._finished():
                self._receive()
                if self._engine.has_work:
                    self._begin(self._engine.admit())
                    self._publish(self._step())
                    self._reports.pages_moved()
                    self._worked_at = time.monotonic()
                if not self._may_wait():
                    self._flush()
                self._reports.send_due()
            self._flush()
            self._save_all()
        finally:
            self._admission.close()

    def _step(self) -> list[SequenceOutput]:
        """One step, once it is this model's turn to compute."""
        if failpoints.ACTIVE is not None:
            failpoints.failpoint("worker.prefill" if self._engine.reads_prompt else "worker.decode")
        if self._lease is None:
            return self._engine.step(admits=False)
        self._contended = self._lease.acquire()
        self._engine.share_machine(self._contended)
        try:
            return self._engine.step(admits=False)
        finally:
            self._lease.release()

    def _finished(self) -> bool:
        if self._stopping or not self._draining:
            return self._stopping
        if self._engine.saves and time.monotonic() > self._drain_until:
            return True
        engine = self._engine
        return not (engine.has_work or engine.is_fetching or self._admitting)

    def _receive(self) -> None:
        """Take all messages that wait; when there is nothing to compute, wait for one."""
        while not self._stopping:
            try:
                message = self._inbox.get_nowait()
            except queue.Empty:
                if self._engine.has_work or self._events or self._finished():
                    if (message := self._wait_for_prompt()) is None:
                        return
                else:
                    self._reports.send_due()
                    message = self._wait()
            self._handle(message)

    def _wait_for_prompt(self) -> ToWorker | Admitted | Stop | Wake | None:
        """What comes while a new prompt is prepared, if a step that may be long would begin before.

        Most are ready within a few milliseconds; else they would wait for that whole step.
        """
        running = self._engine.scheduler.running
        if not self._admitting or (running and all(s.is_decoding for s in running)):
            return None
        newest = max(arrival.at for arrival in self._admitting.values())
        patience = newest + _PREPARATION_SECONDS - time.monotonic()
        try:
            return self._inbox.get(timeout=patience) if patience > 0 else None
        except queue.Empty:
            return None

    def _wait(self) -> ToWorker | Admitted | Stop | Wake:
        """The next message; what was computed is saved when none comes for a while."""
        while (patience := self._patience()) < math.inf:
            try:
                return self._inbox.get(timeout=patience)
            except queue.Empty:
                if self._engine.has_unsaved and time.monotonic() >= self._worked_at + _SAVE_AFTER:
                    self._engine.save(_SAVE_SLICE)
                    self._reports.pages_moved()
                self._reports.send_due()
        self._reports.send_due()
        return self._inbox.get()

    def _patience(self) -> float:
        """Seconds until there is something to do that nobody asks for; infinite without such."""
        save = math.inf
        if self._engine.has_unsaved:
            save = max(self._worked_at + _SAVE_AFTER - time.monotonic(), _SAVE_PAUSE)
        return min(save, self._reports.due_in)

    def _save_all(self) -> None:
        """Save what ended sequences left, and those that had no time to end, before the end."""
        if self._stopping:
            return
        for sequence in [s for outputs in self._running.values() for s in outputs]:
            self._engine.finish(sequence, FinishReason.CANCELLED)
        self._engine.drain()
        while self._engine.has_unsaved and not self._stopping and time.monotonic() < self._end_by:
            self._engine.save(_SAVE_SLICE, hurry=True)
            with suppress(queue.Empty):
                self._handle(self._inbox.get(timeout=_SAVE_PAUSE / 10))

    def _handle(self, message: ToWorker | Admitted | Stop | Wake) -> None:
        match message:
            case Generate(request) | Tokenize(request):
                self._accept(request)
            case Embed(request):
                self._send(rejected(request.id, WrongTask(ModelTask.GENERATE, ModelTask.EMBED)))
            case Rerank(request):
                self._send(rejected(request.id, WrongTask(ModelTask.GENERATE, ModelTask.RERANK)))
            case Admitted(arrival, outcome):
                self._admit(arrival, outcome)
            case Cancel(id):
                self._cancel(id)
            case Ping(nonce):
                self._send(Pong(nonce))
            case Trim():
                self._engine.trim()
                self._reports.pages_moved()
            case WatchPages(on):
                self._reports.watch_pages(on)
            case Drain(grace):
                self._draining = True
                self._drain_until = time.monotonic() + _DRAIN_SHARE * grace
                self._end_by = time.monotonic() + _END_SHARE * grace
            case Stop():
                self._stopping = True
            case Wake():
                pass
            case Load():
                raise RuntimeError("a worker loads one model only")

    def _accept(self, request: GenerateRequest | TokenizeRequest) -> None:
        if self._draining:
            error = RequestRejected("The model is being unloaded.", code="model_unloading")
            self._send(rejected(request.id, error))
            return
        arrival = self._admitting[request.id] = Arrival(request, time.monotonic())
        self._admission.put(arrival)

    def _is_admitting(self, arrival: Arrival) -> bool:
        """Whether it is on its way, and not cancelled."""
        return self._admitting.get(arrival.request.id) is arrival

    def _admit(self, arrival: Arrival, outcome: Prepared | Tokenized | BackendError) -> None:
        """Start what the admission thread prepared, unless it was cancelled meanwhile."""
        request_id = arrival.request.id
        if not self._is_admitting(arrival):
            return
        del self._admitting[request_id]
        if isinstance(outcome, BackendError):
            self._send(rejected(request_id, outcome))
        elif isinstance(outcome, Tokenized):
            self._send(outcome)
        elif isinstance(request := arrival.request, GenerateRequest):
            self._start(request, outcome, arrival.at)

    def _start(self, request: GenerateRequest, prepared: Prepared, arrived_at: float) -> None:
        # The one token that is drawn after a prompt alone is nobody's: no grammar has a say in it.
        constraint = None if request.max_tokens == 0 else prepared.constraint
        first: Sequence | None = None
        outputs: dict[Sequence, AnswerOutput] = {}
        for index in range(request.n):
            sequence = Sequence(
                request.id,
                index,
                list(prepared.token_ids),
                request.sampling,
                max_tokens=_most_tokens(request, len(prepared.token_ids)),
                # What only warms the cache is not over any sooner, whatever was drawn.
                ignore_eos=request.ignore_eos or request.max_tokens == 0,
                private=request.private,
                speculates=request.speculation,
                priority=request.priority,
                client=request.client,
                conversation=request.conversation,
                logprobs=request.logprobs,
                constraint=None if constraint is None else constraint.fork(),
                parent=first,
                arrived_at=arrived_at,
            )
            first = first or sequence
            outputs[sequence] = AnswerOutput(request, index, self._tokenizer, prepared.form)
            sequence.pauses_at = outputs[sequence].thoughts_left(0)
            self._engine.add(sequence)
        self._running[request.id] = outputs

    def _cancel(self, request_id: str) -> None:
        """Free what the request holds; nobody listens any more, so nothing is sent."""
        self._admitting.pop(request_id, None)
        for sequence in self._running.pop(request_id, {}):
            self._engine.finish(sequence, FinishReason.CANCELLED)
            self._reports.pages_moved()

    def _begin(self, sequences: list[Sequence]) -> None:
        """Say what begins, before a step that may be long."""
        if not sequences:
            return
        for sequence in sequences:
            if sequence.index == 0:
                cached = sequence.cached_tokens
                self._events.append(Started(sequence.request_id, sequence.prompt_length, cached))
        self._flush()
        self._reports.send_due()

    def _publish(self, outputs: list[SequenceOutput]) -> None:
        """Turn one step's tokens into events."""
        for output in outputs:
            sequence = output.sequence
            if sequence.request_id not in self._running:
                continue  # it failed with another of its sequences in this very step
            answer = self._running[sequence.request_id][sequence]
            reason = output.finish_reason
            if output.error is not None:
                self._fail(sequence.request_id, output.error)
                continue
            # The token that ends the answer is not part of its text.
            last = output.token_ids[-1]
            eog = reason is FinishReason.STOP and self._engine.runner.is_eog(last)
            consumed = answer.consumed
            self._urgent |= not consumed  # its first token
            token_ids = output.token_ids[:-1] if eog else output.token_ids
            self._events += answer.push(token_ids, output.logprobs)
            if answer.stop is not None:
                # A step's tokens were guessed but for the last; behind a stop string none counts.
                kept = answer.consumed - consumed
                sequence.accepted_tokens -= max(0, len(output.token_ids) - 1 - kept)
                self._engine.finish(sequence, FinishReason.STOP)
                self._finish(sequence, FinishReason.STOP, answer.consumed)
            elif reason is not None:
                self._finish(sequence, reason, answer.consumed + eog)
            elif answer.overdue:
                self._engine.finish(sequence, FinishReason.LENGTH)
                self._finish(sequence, FinishReason.LENGTH, answer.consumed)
            else:
                if answer.is_free:
                    sequence.constraint = None
                self._bound_thoughts(sequence, answer)

    def _bound_thoughts(self, sequence: Sequence, answer: AnswerOutput) -> None:
        """End a thought that has become too long, once nothing of it is in flight."""
        left = answer.thoughts_left(sequence.num_generated)
        if left == 0 and not sequence.num_awaited:
            said = self._engine.dictate(sequence, answer.end_thought())
            certain = None if sequence.logprobs is None else [TokenLogprobs(t, 0.0) for t in said]
            self._events += answer.push(said, certain)
            left = answer.thoughts_left(sequence.num_generated)
        sequence.pauses_at = None if left is None else sequence.num_generated + left

    def _finish(self, sequence: Sequence, reason: FinishReason, completion_tokens: int) -> None:
        """Emit what was held back and the end of one sequence."""
        self._urgent = True
        outputs = self._running[sequence.request_id]
        answer = outputs.pop(sequence)
        self._events += answer.finish()
        self._events.append(_finished(sequence, reason, completion_tokens, answer))
        if not outputs:
            del self._running[sequence.request_id]

    def _may_wait(self) -> bool:
        """Whether the events can leave together with those of the next step.

        A frame wakes the daemon and its clients, on cores that decode, and no screen shows more
        than sixty a second.
        """
        if self._urgent or self._contended or time.monotonic() - self._flushed_at >= _JOIN_SECONDS:
            return False
        return bool(self._engine.scheduler.running) and not self._engine.reads_prompt

    def _fail(self, request_id: str, reason: str) -> None:
        """End one request alone, whose grammar cannot be followed any further."""
        self._flush()
        self._cancel(request_id)
        error = RequestRejected(
            f"The answer cannot follow the grammar any further: {reason}.",
            hint="Simplify the grammar or the schema.",
            code="grammar_failed",
        )
        self._send(rejected(request_id, error))

    def _flush(self) -> None:
        if self._events:
            self._send(Outputs(self._events))
            self._events = []
            self._urgent = False
            self._flushed_at = time.monotonic()


def rejected(request_id: str, error: BackendError) -> Rejected:
    """The message that says why a request is not served."""
    exceeded = error if isinstance(error, ContextExceeded) else None
    return Rejected(
        request_id,
        error.code,
        error.message,
        hint=error.hint,
        param=error.param if isinstance(error, RequestRejected) else None,
        prompt_tokens=exceeded.prompt_tokens if exceeded else None,
        context=exceeded.context if exceeded else None,
        exact=exceeded is None or exceeded.exact,
    )


def _most_tokens(request: GenerateRequest, prompt_length: int) -> int | None:
    """What a sequence may generate, where anything bounds it but the model's context.

    A step yields at least one token, which an answer of none leaves out.
    """
    bounds = [] if request.max_tokens is None else [request.max_tokens]
    if request.max_context is not None:
        bounds.append(request.max_context - prompt_length)
    return max(1, min(bounds)) if bounds else None


def _finished(
    sequence: Sequence, reason: FinishReason, completion_tokens: int, answer: AnswerOutput
) -> Finished:
    if reason is FinishReason.STOP and answer.calls:
        reason = FinishReason.TOOL_CALLS
    started = sequence.started_at or sequence.arrived_at
    first = sequence.first_token_at or started
    return Finished(
        sequence.request_id,
        sequence.index,
        reason,
        completion_tokens,
        queue_seconds=started - sequence.arrived_at,
        prompt_seconds=first - started,
        decode_seconds=(sequence.last_token_at or first) - first,
        drafted_tokens=sequence.drafted_tokens,
        accepted_tokens=sequence.accepted_tokens,
        reasoning_tokens=answer.reasoning_tokens,
        stop=answer.stop,
    )
