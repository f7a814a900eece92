"""Fans a worker's messages out to the requests they belong to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from .base import Event, Finished, GenerateRequest
from .errors import BackendError, ContextExceeded, RequestRejected
from .messages import Cancel, Generate, Outputs, Rejected, ToWorker


class RequestStreams:
    """The requests one worker is busy with; used from the event loop only."""

    def __init__(self, send: Callable[[ToWorker], None]) -> None:
        self._send = send
        self._queues: dict[str, asyncio.Queue[Event | BackendError]] = {}

    @property
    def busy(self) -> bool:
        """Whether any request waits for events."""
        return bool(self._queues)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """Send the request and yield its events; closing the generator cancels it.

        Raises `RequestRejected` for an id in use and for what cannot be put into a message.
        """
        if request.id in self._queues:
            raise RequestRejected(f"A request with the id {request.id!r} is running.", param="id")
        try:
            self._send(Generate(request))
        except (ValueError, OverflowError) as error:
            raise RequestRejected(f"The request cannot reach the model: {error}.") from error
        events: asyncio.Queue[Event | BackendError] = asyncio.Queue()
        self._queues[request.id] = events
        unfinished = True
        finished = 0
        try:
            while unfinished:
                event = await events.get()
                if isinstance(event, BackendError):
                    unfinished = False
                    raise event
                finished += isinstance(event, Finished)
                unfinished = finished < request.n
                yield event
        finally:
            if self._queues.pop(request.id, None) is not None and unfinished:
                self._send(Cancel(request.id))

    def dispatch(self, message: Outputs | Rejected) -> None:
        """Hand events to whoever waits for them; those of cancelled requests are dropped."""
        if isinstance(message, Rejected):
            self._put(message.id, _rejection(message))
            return
        for event in message.events:
            self._put(event.id, event)

    def fail_all(self, error: BackendError) -> None:
        """End every request with the error."""
        queues, self._queues = self._queues, {}
        for events in queues.values():
            events.put_nowait(error)

    def _put(self, request_id: str, event: Event | BackendError) -> None:
        events = self._queues.get(request_id)
        if events is not None:
            events.put_nowait(event)


def _rejection(message: Rejected) -> BackendError:
    if message.code == BackendError.code:
        return BackendError(message.message, hint=message.hint)
    if message.prompt_tokens is not None and message.context is not None:
        return ContextExceeded(message.prompt_tokens, message.context, exact=message.exact)
    return RequestRejected(
        message.message, hint=message.hint, code=message.code, param=message.param
    )
