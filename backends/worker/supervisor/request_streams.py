"""Delivers a worker's messages to the requests they belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from ...base.errors import BackendError, ContextExceeded, RequestRejected
from ...base.events import Embedded, Event, EventSink, Finished, Reranked, Tokenized
from ...base.requests import EmbedRequest, GenerateRequest, RerankRequest, TokenizeRequest
from ..worker_protocol import Cancel, Outputs, Rejected, ToWorker, WorkerRequest

Answer = TypeVar("Answer", Embedded, Reranked, Tokenized)


# Events that end a sequence, or a whole request without sequences.
_ENDS = frozenset({Finished, Embedded, Reranked, Tokenized})


class RequestStream:
    """A running request: the sink of its events, and a future for its end."""

    def __init__(self, request: WorkerRequest, sink: Callable[[list[Any]], None]) -> None:
        self._sink = sink
        self._sequences = request.n if isinstance(request, GenerateRequest) else 1
        self.running = True
        """Whether the worker will send more events of it."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def deliver(self, events: list[Any]) -> None:
        """Pass on the events of one step, or an answer; a sink that fails ends its own request."""
        for event in events:
            if type(event) in _ENDS:
                self._sequences -= 1
                self.running = self._sequences > 0
        if self.ended.done():
            return
        try:
            self._sink(events)
        except Exception as error:
            self.ended.set_exception(error)
        else:
            if not self.running:
                self.ended.set_result(None)

    def fail(self, error: BackendError) -> None:
        """End the request with the error."""
        self.running = False
        if not self.ended.done():
            self.ended.set_exception(error)

    def close(self) -> None:
        """Discard the outcome, which is not awaited any more."""
        if not self.ended.cancel() and not self.ended.cancelled():
            self.ended.exception()


class RequestStreams:
    """The requests that one worker runs; used from the event loop only."""

    def __init__(self, send: Callable[[ToWorker], None]) -> None:
        self._send = send
        self._streams: dict[str, RequestStream] = {}

    @property
    def busy(self) -> bool:
        """Return whether any request is running."""
        return bool(self._streams)

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """Send the request and pass its events to the sink; cancelling the call cancels the
        request.

        Raises `RequestRejected` for an id in use, and for values that no message can hold.
        """
        with self._open(request, sink) as stream:
            await stream.ended

    async def ask(
        self, request: EmbedRequest | RerankRequest | TokenizeRequest, kind: type[Answer]
    ) -> Answer:
        """Send the request and return its answer; cancelling the call cancels the request.

        Raises `BackendError`.
        """
        answers: list[Any] = []
        with self._open(request, answers.extend) as stream:
            await stream.ended
        if not isinstance(answers[0], kind):
            raise BackendError(f"The model answered {type(answers[0]).__name__} to the request.")
        return answers[0]

    def dispatch(self, message: Outputs | Rejected | Embedded | Reranked | Tokenized) -> None:
        """Deliver a message to its requests; events of cancelled ones are dropped."""
        match message:
            case Rejected():
                if (stream := self._streams.get(message.id)) is not None:
                    stream.fail(_rejection(message))
            case Outputs():
                for request_id, events in _by_request(message.events).items():
                    if (stream := self._streams.get(request_id)) is not None:
                        stream.deliver(events)
            case _:
                if (stream := self._streams.get(message.id)) is not None:
                    stream.deliver([message])

    def fail_all(self, error: BackendError) -> None:
        """End every request with the error."""
        for stream in self._streams.values():
            stream.fail(error)

    @contextmanager
    def _open(
        self, request: WorkerRequest, sink: Callable[[list[Any]], None]
    ) -> Generator[RequestStream]:
        """Run the request while the context lasts."""
        if request.id in self._streams:
            raise RequestRejected(f"A request with the id {request.id!r} is running.", param="id")
        try:
            self._send(request)
        except (ValueError, OverflowError) as error:
            raise RequestRejected(f"The request cannot reach the model: {error}.") from error
        stream = self._streams[request.id] = RequestStream(request, sink)
        try:
            yield stream
        finally:
            del self._streams[request.id]
            stream.close()
            if stream.running:
                self._send(Cancel(request.id))


def _by_request(events: list[Event]) -> dict[str, list[Event]]:
    """Return the events of each request, in order."""
    if len(events) == 1:
        return {events[0].id: events}
    requests: dict[str, list[Event]] = {}
    for event in events:
        requests.setdefault(event.id, []).append(event)
    return requests


def _rejection(message: Rejected) -> BackendError:
    """Return the error that the worker reports."""
    if message.code == BackendError.code:
        return BackendError(message.message, hint=message.hint)
    if message.prompt_tokens is not None and message.context is not None:
        return ContextExceeded(message.prompt_tokens, message.context, exact=message.exact)
    return RequestRejected(
        message.message, hint=message.hint, code=message.code, param=message.param
    )
