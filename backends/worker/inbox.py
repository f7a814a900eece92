"""The inbox of a worker's step thread, and the base class of the loops that serve it."""

from __future__ import annotations

import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from ingle.models.model_task import ModelTask

from ..base.errors import BackendError, ContextExceeded, RequestRejected, WrongTask
from ..base.model_info import Gauges
from ..base.requests import EmbedRequest, GenerateRequest, RerankRequest, TokenizeRequest
from .request_preparer import Admitted
from .worker_protocol import (
    Drain,
    FromWorker,
    GaugesReport,
    LivenessPing,
    Load,
    Pong,
    Rejected,
    ToWorker,
    WorkerRequest,
)


class Wake:
    """Wakes the step thread, so that it checks again for work."""


InboxMessage = ToWorker | Admitted | Wake
Inbox = queue.SimpleQueue[InboxMessage]
"""Messages of the daemon, and results of the worker's other threads."""

REPORT_INTERVAL = 0.25
"""Seconds between two reports of a busy worker."""

_TASKS: dict[type[WorkerRequest], ModelTask] = {
    GenerateRequest: ModelTask.GENERATE,
    EmbedRequest: ModelTask.EMBED,
    RerankRequest: ModelTask.RERANK,
}


class ServingLoop(ABC):
    """Serves one loaded model with the messages in its inbox."""

    def __init__(self, task: ModelTask, send: Callable[[FromWorker], None], inbox: Inbox) -> None:
        """`send` is called from the thread of `run` only."""
        self._task = task
        self._send = send
        self._inbox = inbox
        self._draining = False
        self._gauges_due = 0.0
        self._reported = Gauges()

    @abstractmethod
    def run(self) -> None:
        """Serve until drained."""

    @abstractmethod
    def _start(self, request: WorkerRequest) -> None:
        """Begin a request for this model's task, or of tokens."""

    @abstractmethod
    def _gauges(self) -> Gauges:
        """Return the present gauges."""

    def _handle(self, message: InboxMessage) -> None:
        match message:
            case GenerateRequest() | EmbedRequest() | RerankRequest() | TokenizeRequest():
                self._accept(message)
            case LivenessPing():
                self._send(Pong())
            case Drain():
                self._draining = True
            case Load():
                raise RuntimeError("a worker loads one model only")
            case _:
                pass

    def _accept(self, request: WorkerRequest) -> None:
        task = _TASKS.get(type(request), self._task)
        if task is not self._task:
            self._refuse(request.id, WrongTask(self._task, task))
        elif self._draining:
            error = RequestRejected("The model is being unloaded.", code="model_unloading")
            self._refuse(request.id, error)
        else:
            self._start(request)

    def _refuse(self, request_id: str, error: BackendError) -> None:
        """Send the rejection of a request."""
        exceeded = error if isinstance(error, ContextExceeded) else None
        self._send(
            Rejected(
                request_id,
                error.code,
                error.message,
                hint=error.hint,
                param=error.param if isinstance(error, RequestRejected) else None,
                prompt_tokens=exceeded.prompt_tokens if exceeded else None,
                context=exceeded.context if exceeded else None,
                exact=exceeded is None or exceeded.exact,
            )
        )

    def _report_gauges(self, *, busy: bool) -> None:
        """Send gauges that have changed: at intervals while busy, at once when idle."""
        now = time.monotonic()
        if busy and now < self._gauges_due:
            return
        gauges = self._gauges()
        if gauges != self._reported:
            self._gauges_due = now + REPORT_INTERVAL
            self._reported = gauges
            self._send(GaugesReport(gauges))
