"""Retries a request once if its worker died before the client received any output."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.errors import WorkerDied
from ingle.backends.base.events import (
    Embedded,
    Event,
    EventSink,
    PromptAdvanced,
    Reranked,
    Started,
    Tokenized,
)
from ingle.backends.base.requests import (
    EmbedRequest,
    GenerateRequest,
    RerankRequest,
    TokenizeRequest,
)

T = TypeVar("T")

_BEFORE_ANSWER = frozenset({Started, PromptAdvanced})


class RetryQueue:
    """Serialises retries: each runs alone until its model produces output.

    The request that killed the process must not take the others with it again. Retries run newest
    first, since a process rarely dies of what it has been doing for long.
    """

    def __init__(self) -> None:
        self._arrivals = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._taken = False

    def arrive(self) -> int:
        """Return the request's arrival number, which increases."""
        return next(self._arrivals)

    async def enter(self, arrival: int) -> None:
        """Wait for this request's turn; `leave` ends it."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        heappush(self._waiting, (-arrival, self.arrive(), turn))
        # Wait one cycle: all requests of the dead process must have queued first.
        loop.call_soon(self._next)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """End the current turn."""
        self._taken = False
        self._next()

    def _next(self) -> None:
        while self._waiting and not self._taken:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                self._taken = True
                turn.set_result(None)


class RetryingBackend:
    """The backend of a lease, which is replaced at most once.

    With `whole` the client receives nothing before the end of an answer, so a retry is always
    possible. A second death is raised unchanged.
    """

    def __init__(
        self,
        backend: RequestBackend,
        *,
        next_backend: Callable[[WorkerDied], Awaitable[RequestBackend]],
        retry_queue: RetryQueue,
        whole: bool = False,
    ) -> None:
        """`next_backend` returns the next backend; `retry_queue` is shared by all leases of the
        model.
        """
        self._backend = backend
        self._next_backend = next_backend
        self._retry_queue = retry_queue
        self._arrival = retry_queue.arrive()
        self._whole = whole
        self._replaced = False
        self._replacing = asyncio.Lock()

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """See `RequestBackend.run`."""
        delivery = RetryDelivery(sink, whole=self._whole)
        first = self._backend
        try:
            await first.run(request, delivery.take)
        except WorkerDied as error:
            if not delivery.may_restart:
                raise
            with await self._enter(first, error) as turn:
                delivery.restart(turn.close)
                await self._backend.run(request, delivery.take)
        delivery.end()

    async def embed(self, request: EmbedRequest) -> Embedded:
        """See `RequestBackend.embed`."""
        return await self._with_one_retry(lambda backend: backend.embed(request))

    async def rerank(self, request: RerankRequest) -> Reranked:
        """See `RequestBackend.rerank`."""
        return await self._with_one_retry(lambda backend: backend.rerank(request))

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """See `RequestBackend.tokenize`."""
        return await self._with_one_retry(lambda backend: backend.tokenize(request))

    async def _with_one_retry(self, call: Callable[[RequestBackend], Awaitable[T]]) -> T:
        first = self._backend
        try:
            return await call(first)
        except WorkerDied as error:
            with await self._enter(first, error):
                return await call(self._backend)

    async def _enter(self, died: RequestBackend, error: WorkerDied) -> ExitStack:
        """Wait for the turn and the next backend; closing the result ends the turn, once.

        Raises `error` if this lease has used its retry, and any load error.
        """
        if self._replaced and died is self._backend:
            raise error
        await self._retry_queue.enter(self._arrival)
        with ExitStack() as turn:
            turn.callback(self._retry_queue.leave)
            async with self._replacing:
                if died is self._backend:
                    self._backend = await self._next_backend(error)
                    self._replaced = True
            return turn.pop_all()


class RetryDelivery:
    """Delivers events as they come, or all at the end, without repeating the start of an answer."""

    def __init__(self, sink: EventSink, *, whole: bool) -> None:
        self._sink = sink
        self._whole = whole
        self._held: list[Event] = []
        self._spoke = False
        self._started = False
        self._on_word: Callable[[], None] | None = None

    @property
    def may_restart(self) -> bool:
        """Return whether the client has received nothing of the answer."""
        return self._whole or not self._spoke

    def take(self, events: list[Event]) -> None:
        """Deliver the events of one step."""
        if self._whole:
            self._held += events
        if not self._spoke:
            self._spoke = any(type(event) not in _BEFORE_ANSWER for event in events)
            if self._spoke and self._on_word is not None:
                self._on_word()
            if not self._whole and self._started:
                events = [event for event in events if type(event) is not Started]
            self._started = True
        if not self._whole and events:
            self._sink(events)

    def restart(self, on_word: Callable[[], None]) -> None:
        """Restart the answer; `on_word` is called when the first text arrives."""
        self._held.clear()
        self._spoke = False
        self._on_word = on_word

    def end(self) -> None:
        """Deliver what remains of a complete answer."""
        if self._whole:
            self._sink(self._held)
