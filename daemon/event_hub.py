"""Broadcasting to every listener, each with a bounded queue of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from typing import Literal

import msgspec

QUEUE_LIMIT = 512

EventName = Literal["gauges", "model", "pull", "pages"]


class Broadcast(msgspec.Struct, frozen=True):
    """One event on its way: encoded once for all listeners."""

    name: EventName
    data: bytes
    key: str | None = None
    """Where set, a newer event of the same name and key takes this one's place in a queue."""


class Subscription:
    """One listener's queue: replaceable events wait once, the others wait each.

    A listener that is `QUEUE_LIMIT` events behind is ended rather than told half of what happened:
    it connects again and starts from a fresh snapshot. `pages_of` is the path of the model whose
    pages it looks at.
    """

    def __init__(self, pages_of: str | None = None) -> None:
        self.pages_of = pages_of
        self._queue: deque[Broadcast] = deque()
        self._waiting = asyncio.Event()
        self._ended = False

    def put(self, event: Broadcast) -> None:
        """Queue an event, in the place of an older one where it supersedes that."""
        if self._ended:
            return
        if event.key is not None:
            for position, older in enumerate(self._queue):
                if older.name == event.name and older.key == event.key:
                    self._queue[position] = event
                    return
        if len(self._queue) >= QUEUE_LIMIT:
            self._queue.clear()
            self.end()
            return
        self._queue.append(event)
        self._waiting.set()

    def end(self) -> None:
        """Let the listener finish what is queued, and no more."""
        self._ended = True
        self._waiting.set()

    async def __aiter__(self) -> AsyncIterator[Broadcast]:
        while True:
            while self._queue:
                yield self._queue.popleft()
            if self._ended:
                return
            self._waiting.clear()
            await self._waiting.wait()


class EventHub:
    """Passes state changes and gauges to all who listen, and never waits for any of them."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._encoder = msgspec.json.Encoder()
        self._closed = False
        self.on_listeners: Callable[[], None] | None = None
        """Called when the first listener came or the last one left."""

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._subscriptions)

    def publish(
        self,
        name: EventName,
        data: msgspec.Struct,
        *,
        replaces: str | None = None,
        pages_of: str | None = None,
    ) -> None:
        """Tell everybody, or only those who look at the pages of the model of that path.

        `replaces` names what a newer event of this kind makes worthless.
        """
        if not self._subscriptions:
            return
        event = Broadcast(name, self._encoder.encode(data), replaces)
        for subscription in self._subscriptions:
            if pages_of is None or subscription.pages_of == pages_of:
                subscription.put(event)

    def tell(
        self,
        subscription: Subscription,
        name: EventName,
        data: msgspec.Struct,
        *,
        replaces: str | None = None,
    ) -> None:
        """Tell one listener alone; see `publish`."""
        subscription.put(Broadcast(name, self._encoder.encode(data), replaces))

    @contextmanager
    def subscribe(self, *, pages_of: str | None = None) -> Generator[Subscription]:
        """Listen for as long as the context lasts."""
        subscription = Subscription(pages_of)
        if self._closed:
            subscription.end()
        self._subscriptions.add(subscription)
        if len(self._subscriptions) == 1:
            self._listeners_changed()
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            if not self._subscriptions:
                self._listeners_changed()

    def close(self) -> None:
        """End every listener's stream."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.end()

    def _listeners_changed(self) -> None:
        if self.on_listeners is not None:
            self.on_listeners()
