"""The main loop of a worker that turns texts into vectors or scores."""

from __future__ import annotations

import queue
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ingle.models.model_task import ModelTask

from ..base.errors import BackendError, RequestRejected, WrongTask
from ..base.events import Embedded, Reranked
from ..base.model_info import Gauges
from ..base.requests import EmbedRequest, GenerateRequest, RerankRequest, TokenizeRequest
from ..engine.text_encoder import TextEncoder
from .compute_lease import ComputeLease
from .inbox import Inbox, InboxMessage, ServingLoop
from .worker_protocol import Cancel, FromWorker, WorkerRequest

_TOKENIZE_SECONDS = 0.01
"""Seconds by which tokenising new requests may delay the next batch."""


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
        """Return whether every text is computed."""
        return len(self.rows) == len(self.texts)

    @property
    def prompt_tokens(self) -> int:
        """Return the number of tokens of all texts."""
        return sum(map(len, self.texts))


class EmbeddingLoop(ServingLoop):
    """Serves one loaded embedding or reranking model.

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
        super().__init__(encoder.task, send, inbox)
        self._encoder = encoder
        self._inputs = encoder.text_inputs()
        self._pairs = encoder.text_pairs()
        self._lease = lease
        self._arrived: deque[_Job] = deque()
        self._running: deque[_Job] = deque()
        self._prompt_tokens = 0
        self._steps = 0

    def run(self) -> None:
        """Serve until drained."""
        while not self._finished():
            self._receive()
            self._report_gauges(busy=self._busy)
            self._tokenize()
            if self._running:
                self._step()

    def _finished(self) -> bool:
        return self._draining and not self._busy

    @property
    def _busy(self) -> bool:
        return bool(self._arrived or self._running)

    def _receive(self) -> None:
        """Handle all messages in the inbox; if there is nothing to do, wait for one."""
        while True:
            try:
                message = self._inbox.get_nowait()
            except queue.Empty:
                if self._busy or self._finished():
                    return
                self._report_gauges(busy=False)
                message = self._inbox.get()
            self._handle(message)

    def _handle(self, message: InboxMessage) -> None:
        if isinstance(message, Cancel):
            self._forget(message.id)
        else:
            super()._handle(message)

    def _start(self, request: WorkerRequest) -> None:
        match request:
            case EmbedRequest():
                self._arrived.append(_Job(request, self._embed_tokens(request)))
            case RerankRequest():
                self._arrived.append(_Job(request, self._rerank_tokens(request)))
            case TokenizeRequest():
                self._list_tokens(request)
            case GenerateRequest():
                raise RuntimeError("a model that embeds does not generate")

    def _list_tokens(self, request: TokenizeRequest) -> None:
        """Answer at once, since it takes milliseconds."""
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

    def _forget(self, request_id: str) -> None:
        """Drop a cancelled request; nothing is sent for it."""
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
        """Tokenise a text of each new request in turn; while batches run, for milliseconds."""
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
        """Compute one batch under the compute lease."""
        if self._lease is None:
            return self._encoder.compute(texts)
        self._lease.acquire()
        try:
            return self._encoder.compute(texts)
        finally:
            self._lease.release()

    def _fill_batch(self) -> list[tuple[_Job, int]]:
        """Return a text of each job in turn while they fit, beginning after the last one served."""
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

    def _gauges(self) -> Gauges:
        return Gauges(
            running=len(self._running),
            waiting=len(self._arrived),
            prompt_tokens_total=self._prompt_tokens,
            steps_total=self._steps,
        )


def normalized(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows at length 1; a row of zeros stays as it is."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def scores(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return a classifier's outputs as scores from 0 to 1.

    A single output is a logit; two are probabilities, the first of "yes".
    """
    first = rows[:, 0].astype(np.float64)
    if rows.shape[1] > 1:
        return first
    # The form without an overflow for logits of either sign.
    return np.where(first >= 0, 1, np.exp(-abs(first))) / (1 + np.exp(-abs(first)))
