"""The inside of a worker that turns texts into vectors or scores."""

from __future__ import annotations

import queue
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ingle.models.model_task import ModelTask

from ..base.errors import BackendError, RequestRejected, WrongTask
from ..base.events import Embedded, Reranked
from ..base.model_info import Gauges
from ..base.requests import EmbedRequest, RerankRequest, TokenizeRequest
from ..engine.text_encoder import TextEncoder
from .compute_lease import ComputeLease
from .inbox import Inbox, Wake, rejected
from .request_preparer import Admitted, Stop
from .worker_protocol import (
    Cancel,
    Drain,
    Embed,
    FromWorker,
    GaugesReport,
    Generate,
    Load,
    Ping,
    Pong,
    Rerank,
    Tokenize,
    ToWorker,
    Trim,
    WatchPages,
)

Request = TypeVar("Request", EmbedRequest, RerankRequest)

_GAUGES_INTERVAL = 0.25
_TOKENIZE_SECONDS = 0.01
"""How long a running batch's successor may be put off by the tokenising of new requests."""


class _Job:
    """One request: its texts are tokenised one by one, then computed one by one."""

    def __init__(self, request: EmbedRequest | RerankRequest, tokens: Iterator[list[int]]) -> None:
        self.request = request
        self.untokenized = tokens
        self.texts: list[list[int]] = []
        self.next = 0
        self.rows: list[NDArray[np.float32]] = []

    @property
    def done(self) -> bool:
        """Whether every text is computed."""
        return len(self.rows) == len(self.texts)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all texts."""
        return sum(map(len, self.texts))


class EmbeddingLoop:
    """Serves one loaded model with what arrives in its inbox.

    A batch takes one text of each request in turn until it is full, so that a short request waits
    for one batch and not for a long request's last. All texts of a request are tokenised before the
    first is computed: whether one of them is too long is known at once.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        send: Callable[[FromWorker], None],
        inbox: Inbox,
        lease: ComputeLease | None = None,
    ) -> None:
        """`send` is called from the thread of `run` only; batches are computed under `lease`."""
        self._encoder = encoder
        self._inputs = encoder.text_inputs()
        self._pairs = encoder.text_pairs()
        self._send = send
        self._inbox = inbox
        self._lease = lease
        self._arrived: deque[_Job] = deque()
        self._running: deque[_Job] = deque()
        self._draining = False
        self._stopping = False
        self._prompt_tokens = 0
        self._steps = 0
        self._gauges_due = 0.0
        self._reported = Gauges()

    def run(self) -> None:
        """Serve until stopped, or until drained."""
        while not self._finished():
            self._receive()
            self._report_gauges()
            self._tokenize()
            if self._running:
                self._step()

    def _finished(self) -> bool:
        return self._stopping or (self._draining and not self._busy)

    @property
    def _busy(self) -> bool:
        return bool(self._arrived or self._running)

    def _receive(self) -> None:
        """Take all messages that wait; when there is nothing to do, wait for one."""
        while not self._stopping:
            try:
                message = self._inbox.get_nowait()
            except queue.Empty:
                if self._busy or self._finished():
                    return
                self._report_gauges()
                message = self._inbox.get()
            self._handle(message)

    def _handle(self, message: ToWorker | Admitted | Stop | Wake) -> None:
        match message:
            case Embed(request):
                self._accept(request, ModelTask.EMBED, self._embed_tokens)
            case Rerank(request):
                self._accept(request, ModelTask.RERANK, self._rerank_tokens)
            case Generate(request):
                self._refuse(request.id, WrongTask(self._encoder.task, ModelTask.GENERATE))
            case Tokenize(request):
                self._list_tokens(request)
            case Cancel(id):
                self._forget(id)
            case Ping(nonce):
                self._send(Pong(nonce))
            case Drain():
                self._draining = True
            case Stop():
                self._stopping = True
            case Trim() | WatchPages():
                pass  # nothing is kept
            case Load() | Admitted() | Wake():
                raise RuntimeError(f"no message for this loop: {message!r}")

    def _accept(
        self, request: Request, task: ModelTask, tokens: Callable[[Request], Iterator[list[int]]]
    ) -> None:
        if self._encoder.task is not task:
            self._refuse(request.id, WrongTask(self._encoder.task, task))
        elif self._draining:
            error = RequestRejected("The model is being unloaded.", code="model_unloading")
            self._refuse(request.id, error)
        else:
            self._arrived.append(_Job(request, tokens(request)))

    def _list_tokens(self, request: TokenizeRequest) -> None:
        """Answer at once: it is a matter of milliseconds."""
        try:
            if request.generate is not None:
                raise WrongTask(self._encoder.task, ModelTask.GENERATE)
            self._send(self._inputs.token_list(request))
        except BackendError as error:
            self._refuse(request.id, error)
        except Exception as error:
            traceback.print_exc()
            failure = BackendError(f"The text could not be tokenised: {error!r}.")
            self._refuse(request.id, failure)

    def _refuse(self, request_id: str, error: BackendError) -> None:
        self._send(rejected(request_id, error))

    def _forget(self, request_id: str) -> None:
        """Drop the request; nobody listens any more, so nothing is sent."""
        for jobs in (self._arrived, self._running):
            for job in [job for job in jobs if job.request.id == request_id]:
                jobs.remove(job)

    def _embed_tokens(self, request: EmbedRequest) -> Iterator[list[int]]:
        dimensions = request.dimensions
        if dimensions is not None and not 1 <= dimensions <= self._encoder.width:
            raise RequestRejected(
                f"Vectors of this model have {self._encoder.width} dimensions, not {dimensions}.",
                param="dimensions",
            )
        for number, text in enumerate(request.inputs):
            yield self._inputs.build(text, number, truncate=request.truncate)

    def _rerank_tokens(self, request: RerankRequest) -> Iterator[list[int]]:
        truncate = request.truncate
        query = self._inputs.bounded(request.query, 0, truncate=False, param="query")
        for number, document in enumerate(request.documents):
            text = self._inputs.bounded(document, number, truncate=truncate, param="documents")
            name = f"The query with document {number}"
            yield self._pairs.build(query, text, name, truncate=truncate)

    def _tokenize(self) -> None:
        """Tokenise a text of each new request in turn; while batches run, only for a moment."""
        deadline = time.monotonic() + _TOKENIZE_SECONDS
        while self._arrived and time.monotonic() < deadline:
            job = self._arrived.popleft()
            try:
                text = next(job.untokenized, None)
            except RequestRejected as error:
                self._refuse(job.request.id, error)
                continue
            except Exception as error:
                traceback.print_exc()
                failure = BackendError(f"The texts could not be tokenised: {error!r}.")
                self._refuse(job.request.id, failure)
                continue
            if text is not None:
                job.texts.append(text)
                self._arrived.append(job)
            elif job.texts:
                self._running.append(job)
            else:
                self._answer(job)

    def _step(self) -> None:
        """Compute one batch and answer the requests that it completes."""
        batch = self._fill_batch()
        rows = self._compute([job.texts[index] for job, index in batch])
        self._steps += 1
        for (job, index), row in zip(batch, rows, strict=True):
            job.rows.append(row)
            self._prompt_tokens += len(job.texts[index])
        for job in [job for job in self._running if job.done]:
            self._running.remove(job)
            self._answer(job)

    def _compute(self, texts: list[list[int]]) -> NDArray[np.float32]:
        """The rows of one batch, once it is this model's turn to compute."""
        if self._lease is None:
            return self._encoder.compute(texts)
        self._lease.acquire()
        try:
            return self._encoder.compute(texts)
        finally:
            self._lease.release()

    def _fill_batch(self) -> list[tuple[_Job, int]]:
        """A text of each job in turn while they fit, beginning behind whose turn was last."""
        room = self._encoder.batch_tokens
        batch: list[tuple[_Job, int]] = []
        waiting = deque(self._running)
        self._running.rotate(-1)
        while waiting and len(batch) < self._encoder.batch_texts:
            job = waiting.popleft()
            size = len(job.texts[job.next])
            if batch and size > room:
                continue  # its turn to be first will come
            batch.append((job, job.next))
            room -= size
            job.next += 1
            if job.next < len(job.texts):
                waiting.append(job)
        return batch

    def _answer(self, job: _Job) -> None:
        request = job.request
        rows = np.stack(job.rows) if job.rows else np.zeros((0, self._encoder.width), np.float32)
        if isinstance(request, EmbedRequest):
            vectors = normalized(rows[:, : request.dimensions or self._encoder.width])
            data = vectors.astype("<f4").tobytes()
            self._send(Embedded(request.id, data, vectors.shape[1], job.prompt_tokens))
        else:
            self._send(Reranked(request.id, scores(rows).tolist(), job.prompt_tokens))

    def _report_gauges(self) -> None:
        """Tell the daemon what changed: at intervals while busy, at once when falling idle."""
        now = time.monotonic()
        if self._busy and now < self._gauges_due:
            return
        gauges = Gauges(
            running=len(self._running),
            waiting=len(self._arrived),
            prompt_tokens_total=self._prompt_tokens,
            steps_total=self._steps,
        )
        if gauges != self._reported:
            self._gauges_due = now + _GAUGES_INTERVAL
            self._reported = gauges
            self._send(GaugesReport(gauges))


def normalized(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows at length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def scores(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """From a classifier's outputs to scores from 0 to 1.

    A single output is a logit; of two the model has made probabilities, the first of "yes".
    """
    first = rows[:, 0].astype(np.float64)
    if rows.shape[1] > 1:
        return first
    # The form without an overflow for logits of either sign.
    return np.where(first >= 0, 1, np.exp(-abs(first))) / (1 + np.exp(-abs(first)))
