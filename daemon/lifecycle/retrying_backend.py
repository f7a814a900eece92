"""A request whose worker died under it is asked once more, if its client saw nothing yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar

from ingle.backends.base.backend import Backend
from ingle.backends.base.errors import WorkerDied
from ingle.backends.base.events import Embedded, Event, EventSink, Reranked, Started, Tokenized
from ingle.backends.base.requests import (
    EmbedRequest,
    GenerateRequest,
    RerankRequest,
    TokenizeRequest,
)

from .wrapped_backend import BackendWrapper

T = TypeVar("T")


class Turns:
    """Those who try again do so one after the other, each until its model says something.

    One of them may be what ended the process, and the others are not to be asked beside it: who
    came last goes first, since processes rarely die of what they have been doing for long.
    """

    def __init__(self) -> None:
        self._arrivals = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._taken = False

    def arrive(self) -> int:
        """The number of a request, which counts up."""
        return next(self._arrivals)

    async def enter(self, arrival: int) -> None:
        """Wait for one's turn; `leave` ends it."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        heappush(self._waiting, (-arrival, self.arrive(), turn))
        # Not at once: all who died together are to be in the line first.
        loop.call_soon(self._next)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """End one's turn."""
        self._taken = False
        self._next()

    def _next(self) -> None:
        while self._waiting and not self._taken:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                self._taken = True
                turn.set_result(None)


class RetryingBackend(BackendWrapper):
    """One lease's backend, which another process takes the place of at most once.

    With `whole` nobody sees an answer before its end, so that it can be asked again at any time.
    Whatever dies a second time is told as it is. `generate` is passed on as it is.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        again: Callable[[WorkerDied], Awaitable[Backend]],
        turns: Turns,
        whole: bool = False,
    ) -> None:
        """`again` gives the next backend; `turns` are shared by all who use the model."""
        super().__init__(backend)
        self._again = again
        self._turns = turns
        self._began = turns.arrive()
        self._whole = whole
        self._replaced = False
        self._replacing = asyncio.Lock()

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """See `Backend.run`."""
        delivery = RetryDelivery(sink, whole=self._whole)
        first = self._backend
        try:
            await first.run(request, delivery.take)
        except WorkerDied as error:
            if not delivery.may_repeat:
                raise
            with self._gate(await self._enter(first, error)) as leave:
                delivery.repeat(leave)
                await self._backend.run(request, delivery.take)
        delivery.end()

    async def embed(self, request: EmbedRequest) -> Embedded:
        """See `Backend.embed`."""
        return await self._twice(lambda backend: backend.embed(request))

    async def rerank(self, request: RerankRequest) -> Reranked:
        """See `Backend.rerank`."""
        return await self._twice(lambda backend: backend.rerank(request))

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """See `Backend.tokenize`."""
        return await self._twice(lambda backend: backend.tokenize(request))

    async def _twice(self, ask: Callable[[Backend], Awaitable[T]]) -> T:
        first = self._backend
        try:
            return await ask(first)
        except WorkerDied as error:
            with self._gate(await self._enter(first, error)):
                return await ask(self._backend)

    async def _enter(self, died: Backend, error: WorkerDied) -> Callable[[], None]:
        """Wait for one's turn and for the next backend; returns what ends the turn.

        Raises `error` where this lease has had its second try, and whatever the start fails with.
        """
        if self._replaced and died is self._backend:
            raise error
        await self._turns.enter(self._began)
        try:
            async with self._replacing:
                if died is self._backend:
                    backend = await self._again(error)
                    self._backend, self._replaced = backend, True
        except BaseException:
            self._turns.leave()
            raise
        return self._turns.leave

    @contextmanager
    def _gate(self, release: Callable[[], None]) -> Generator[Callable[[], None]]:
        """What ends the turn, once."""
        left = False

        def leave() -> None:
            nonlocal left
            if not left:
                left = True
                release()

        try:
            yield leave
        finally:
            leave()


class RetryDelivery:
    """Passes events on as they come, or all of them at the end, and no beginning twice."""

    def __init__(self, sink: EventSink, *, whole: bool) -> None:
        self._sink = sink
        self._whole = whole
        self._held: list[Event] = []
        self._spoke = False
        self._started = False
        self._on_word: Callable[[], None] | None = None

    @property
    def may_repeat(self) -> bool:
        """Whether the client has seen nothing of the answer itself."""
        return self._whole or not self._spoke

    def take(self, events: list[Event]) -> None:
        """The events of one step."""
        if self._whole:
            self._held += events
        if not self._spoke:
            self._spoke = any(type(event) is not Started for event in events)
            if self._spoke and self._on_word is not None:
                self._on_word()
            if not self._whole and self._started:
                events = [event for event in events if type(event) is not Started]
            self._started = True
        if not self._whole and events:
            self._sink(events)

    def repeat(self, on_word: Callable[[], None]) -> None:
        """The answer comes anew; `on_word` is called when it begins."""
        self._held.clear()
        self._spoke = False
        self._on_word = on_word

    def end(self) -> None:
        """The answer is complete."""
        if self._whole:
            self._sink(self._held)
