"""Fans a worker's messages out to the requests they belong to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager

from ...base.errors import BackendError, ContextExceeded, RequestRejected
from ...base.events import Event, EventSink, Finished
from ...base.requests import GenerateRequest
from ..worker_protocol import Cancel, Generate, Outputs, Rejected, ToWorker


class RequestStream:
    """One request that runs: where its events go, and a future for its end."""

    def __init__(self, request: GenerateRequest, sink: EventSink) -> None:
        self._sink = sink
        self._sequences = request.n
        self.running = True
        """Whether the worker has more to say about it."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def deliver(self, events: list[Event]) -> None:
        """Pass on the events of one step; a sink that fails ends its own request only."""
        for event in events:
            if type(event) is Finished:
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
        """Nobody waits for it any more, nor asks how it ended."""
        if not self.ended.cancel() and not self.ended.cancelled():
            self.ended.exception()


class RequestStreams:
    """The requests one worker is busy with; used from the event loop only."""

    def __init__(self, send: Callable[[ToWorker], None]) -> None:
        self._send = send
        self._streams: dict[str, RequestStream] = {}

    @property
    def busy(self) -> bool:
        """Whether any request waits for events."""
        return bool(self._streams)

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """Send the request and pass its events to the sink; to cancel the call cancels the request.

        Raises `RequestRejected` for an id in use and for what cannot be put into a message.
        """
        with self._open(request, sink) as stream:
            await stream.ended

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """The same, pulled: yields the events; closing the generator cancels the request."""
        steps: asyncio.Queue[list[Event]] = asyncio.Queue()
        with self._open(request, steps.put_nowait) as stream:
            stream.ended.add_done_callback(lambda _: steps.put_nowait([]))
            while events := await steps.get():
                for event in events:
                    yield event
            await stream.ended

    def dispatch(self, message: Outputs | Rejected) -> None:
        """Hand events to whoever waits for them; those of cancelled requests are dropped."""
        if isinstance(message, Rejected):
            stream = self._streams.get(message.id)
            if stream is not None:
                stream.fail(rejection(message))
            return
        for request_id, events in _by_request(message.events).items():
            stream = self._streams.get(request_id)
            if stream is not None:
                stream.deliver(events)

    def fail_all(self, error: BackendError) -> None:
        """End every request with the error."""
        for stream in self._streams.values():
            stream.fail(error)

    @contextmanager
    def _open(self, request: GenerateRequest, sink: EventSink) -> Generator[RequestStream]:
        """Run the request while the context lasts."""
        if request.id in self._streams:
            raise RequestRejected(f"A request with the id {request.id!r} is running.", param="id")
        try:
            self._send(Generate(request))
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
    """The events of each request, in order."""
    if len(events) == 1:
        return {events[0].id: events}
    requests: dict[str, list[Event]] = {}
    for event in events:
        requests.setdefault(event.id, []).append(event)
    return requests


def rejection(message: Rejected) -> BackendError:
    """The error that the worker meant."""
    if message.code == BackendError.code:
        return BackendError(message.message, hint=message.hint)
    if message.prompt_tokens is not None and message.context is not None:
        return ContextExceeded(message.prompt_tokens, message.context, exact=message.exact)
    return RequestRejected(
        message.message, hint=message.hint, code=message.code, param=message.param
    )
