"""The main loop of a worker process: requests become sequences, steps become events.

Two threads share the work: `RequestPreparer` prepares requests; the step thread owns the engine.
"""

from __future__ import annotations

import math
import queue
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from ingle.models import failpoints
from ingle.models.model_task import ModelTask

from ..base.errors import BackendError, RequestRejected
from ..base.events import Tokenized
from ..base.load_spec import LoadSpec
from ..base.model_info import Gauges
from ..base.requests import GenerateRequest, TokenizeRequest
from ..engine.batch import Batch
from ..engine.engine import Engine
from ..engine.scheduling.scheduler import SequenceOutput
from ..engine.sequence import Sequence
from ..text.answers.answer_format import AnswerFormats
from ..text.prompts.prompt_builder import PromptBuilder
from ..text.tokenization.tokenizer import Tokenizer
from .compute_lease import ComputeLease
from .inbox import REPORT_INTERVAL, Inbox, InboxMessage, ServingLoop
from .request_preparer import Admitted, Arrival, Prepared, RequestPreparer
from .running_requests import RunningRequests
from .worker_protocol import (
    Cancel,
    Drain,
    DropAdapter,
    FromWorker,
    Outputs,
    PagesReport,
    Trim,
    WatchPages,
    WorkerRequest,
)

_PREPARATION_SECONDS = 0.02
_JOIN_SECONDS = 0.024
_SAVE_AFTER = 2.0
"""Idle seconds before cached tokens are saved."""
_SAVE_SLICE = 0.05
_SAVE_PAUSE = 0.05
_DRAIN_SHARE = 0.5
"""The share of the grace time for running sequences; the rest is for saving."""
_END_SHARE = 0.9


class WorkerLoop(ServingLoop):
    """Serves one loaded model that generates."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        prompts: PromptBuilder,
        forms: AnswerFormats,
        send: Callable[[FromWorker], None],
        inbox: Inbox,
        spec: LoadSpec,
        lease: ComputeLease | None = None,
    ) -> None:
        """`send` is called from the thread of `run` only; each step is computed under `lease`.

        `spec` bounds the length of answers.
        """
        super().__init__(ModelTask.GENERATE, send, inbox)
        self._spec = spec
        self._engine = engine
        engine.stops = self._stops
        self._arrived: deque[InboxMessage] = deque()
        """Taken from the inbox while a step was computed."""
        self._lease = lease
        self._contended = False
        self._admitting: dict[str, Arrival] = {}
        self._admission = RequestPreparer(
            engine.runner, tokenizer, prompts, forms, is_wanted=self._is_admitting, done=inbox.put
        )
        self._requests = RunningRequests(engine, tokenizer)
        self._dropped: set[Path] = set()
        self._flushed_at = 0.0
        self._drain_until = math.inf
        self._end_by = math.inf
        self._worked_at = time.monotonic()
        self._pages = PageReports(engine, send)

    def run(self) -> None:
        """Serve until drained."""
        self._admission.start()
        try:
            while not self._finished():
                self._receive()
                if self._engine.has_work:
                    self._begin(self._engine.admit())
                    self._requests.publish(self._step(), self._fail)
                    self._pages.moved()
                    self._worked_at = time.monotonic()
                if not self._may_wait():
                    self._flush()
                self._report()
            self._flush()
            self._save_all()
        finally:
            self._admission.close()

    def _step(self) -> list[SequenceOutput]:
        """Compute one step under the compute lease."""
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

    def _stops(self, batch: Batch) -> bool:
        """Whether a message that came should stop the long step that is computed.

        Either the step is for a cancelled request alone, or a new request would wait for longer
        than what was computed so far took.
        """
        with suppress(queue.Empty):
            while True:
                message = self._inbox.get_nowait()
                if isinstance(message, GenerateRequest | TokenizeRequest):
                    self._handle(message)  # so that it is prepared meanwhile
                else:
                    self._arrived.append(message)
        for message in self._arrived:
            match message:
                case Cancel(id):
                    if all(chunk.sequence.request_id == id for chunk in batch.chunks):
                        return True
                case Admitted(outcome=Prepared()):
                    if time.monotonic() < batch.began + batch.seconds / 2:
                        return True
                case _:
                    pass
        return False

    def _finished(self) -> bool:
        if not self._draining:
            return False
        if self._engine.saves and time.monotonic() > self._drain_until:
            return True
        engine = self._engine
        return not (engine.has_work or engine.is_fetching or self._admitting)

    def _receive(self) -> None:
        """Handle all messages in the inbox; if there is nothing to compute, wait for one."""
        while True:
            try:
                message = self._arrived.popleft() if self._arrived else self._inbox.get_nowait()
            except queue.Empty:
                if self._engine.has_work or self._requests.has_events or self._finished():
                    if (message := self._wait_for_prompt()) is None:
                        return
                else:
                    self._report()
                    self._drop_adapters()
                    if self._prepare_step():
                        continue
                    message = self._wait()
            self._handle(message)

    def _drop_adapters(self) -> None:
        """Free the adapters that were removed, unless a request may be about to use one."""
        if not self._admitting and not self._engine.is_fetching:
            while self._dropped:
                self._engine.runner.drop_adapter(self._dropped.pop())

    def _prepare_step(self) -> bool:
        """Prepare one kind of step, unless a request is about to need the engine.

        A request that comes meanwhile waits for this one only. False if nothing is left to prepare.
        """
        if self._admitting or self._engine.is_fetching or self._draining:
            return False
        return self._engine.prepare_step()

    def _wait_for_prompt(self) -> InboxMessage | None:
        """Return the message that comes while a prompt is prepared, before a step with prefill.

        Most prompts are ready within milliseconds; else they would wait for that whole step.
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

    def _wait(self) -> InboxMessage:
        """Return the next message; saves cached tokens if none comes for a while."""
        while (patience := self._patience()) < math.inf:
            try:
                return self._inbox.get(timeout=patience)
            except queue.Empty:
                if self._engine.has_unsaved and time.monotonic() >= self._worked_at + _SAVE_AFTER:
                    self._engine.save(_SAVE_SLICE)
                    self._pages.moved()
                self._report()
        self._report()
        return self._inbox.get()

    def _patience(self) -> float:
        """Return the seconds until cached tokens are saved or pages are due; infinite if never."""
        save = math.inf
        if self._engine.has_unsaved:
            save = max(self._worked_at + _SAVE_AFTER - time.monotonic(), _SAVE_PAUSE)
        return min(save, self._pages.due_in)

    def _save_all(self) -> None:
        """Save the cached tokens of finished and cancelled sequences before the process ends."""
        self._requests.cancel_all()
        self._engine.drain()
        while self._engine.has_unsaved and time.monotonic() < self._end_by:
            self._engine.save(_SAVE_SLICE, hurry=True)
            with suppress(queue.Empty):
                self._handle(self._inbox.get(timeout=_SAVE_PAUSE / 10))

    def _handle(self, message: InboxMessage) -> None:
        match message:
            case Admitted(arrival, outcome):
                self._admit(arrival, outcome)
            case Cancel(id):
                self._cancel(id)
            case Trim():
                self._engine.trim()
                self._pages.moved()
            case DropAdapter(folder):
                self._dropped.add(Path(folder))
            case WatchPages(on):
                self._pages.watch(on)
            case Drain(grace):
                self._draining = True
                self._drain_until = time.monotonic() + _DRAIN_SHARE * grace
                self._end_by = time.monotonic() + _END_SHARE * grace
            case _:
                super()._handle(message)

    def _start(self, request: WorkerRequest) -> None:
        assert isinstance(request, GenerateRequest | TokenizeRequest)
        if isinstance(request, GenerateRequest):
            limit = self._spec.answer_limit(request.max_tokens)
            request = msgspec.structs.replace(request, max_tokens=limit)
        arrival = self._admitting[request.id] = Arrival(request, time.monotonic())
        self._admission.put(arrival)

    def _gauges(self) -> Gauges:
        return self._engine.gauges()

    def _report(self) -> None:
        """Send the gauges and pages that are due."""
        self._report_gauges(busy=self._engine.has_work)
        self._pages.send_due()

    def _is_admitting(self, arrival: Arrival) -> bool:
        """Return whether it is being prepared, and not cancelled."""
        return self._admitting.get(arrival.request.id) is arrival

    def _admit(self, arrival: Arrival, outcome: Prepared | Tokenized | BackendError) -> None:
        """Start a prepared request, unless it was cancelled meanwhile."""
        request_id = arrival.request.id
        if not self._is_admitting(arrival):
            return
        del self._admitting[request_id]
        if isinstance(outcome, BackendError):
            self._refuse(request_id, outcome)
        elif isinstance(outcome, Tokenized):
            self._send(outcome)
        elif isinstance(request := arrival.request, GenerateRequest):
            self._requests.start(request, outcome, arrival.at)

    def _cancel(self, request_id: str) -> None:
        """Free the sequences of a request; no more events are sent for it."""
        self._admitting.pop(request_id, None)
        if self._requests.cancel(request_id):
            self._pages.moved()

    def _begin(self, sequences: list[Sequence]) -> None:
        """Send the events of sequences that begin, before a step that may be long."""
        if sequences:
            self._requests.begin(sequences)
            self._flush()
            self._report()

    def _may_wait(self) -> bool:
        """Return whether the events can be sent together with those of the next step.

        A frame wakes the daemon and its clients, on cores that decode, and text that grows forty
        times a second is as smooth to the eye.
        """
        urgent = self._requests.urgent or self._contended
        if urgent or time.monotonic() - self._flushed_at >= _JOIN_SECONDS:
            return False
        return bool(self._engine.scheduler.running) and not self._engine.reads_prompt

    def _fail(self, request_id: str, reason: str) -> None:
        """Reject a request whose grammar cannot be followed any further."""
        self._flush()
        self._cancel(request_id)
        error = RequestRejected(
            f"The answer cannot follow the grammar any further: {reason}.",
            hint="Simplify the grammar or the schema.",
            code="grammar_failed",
        )
        self._refuse(request_id, error)

    def _flush(self) -> None:
        if self._requests.has_events:
            self._send(Outputs(self._requests.take_events()))
            self._flushed_at = time.monotonic()


class PageReports:
    """Reports pages of the KV cache that moved while they are watched, a few times a second."""

    def __init__(self, engine: Engine, send: Callable[[FromWorker], None]) -> None:
        self._engine = engine
        self._send = send
        self._watched = False
        self._moved = False
        self._due = 0.0

    def watch(self, on: bool) -> None:
        """Begin or end the reports; the first is due at once."""
        self._watched = self._moved = on
        self._due = 0.0

    def moved(self) -> None:
        """Note that something in the cache has changed."""
        self._moved = True

    @property
    def due_in(self) -> float:
        """Return the seconds until a report is due; infinite if none is."""
        if not (self._watched and self._moved):
            return math.inf
        return max(0.0, self._due - time.monotonic())

    def send_due(self) -> None:
        """Send a report if one is due."""
        if self.due_in == 0:
            self._moved = False
            self._due = time.monotonic() + REPORT_INTERVAL
            self._send(PagesReport(self._engine.page_map()))
