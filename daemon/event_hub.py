"""Broadcasts events to listeners, each with its own bounded queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from typing import Literal

import msgspec

QUEUE_LIMIT = 512

EventName = Literal["gauges", "model", "pull", "engine", "pages", "request"]


class Broadcast(msgspec.Struct, frozen=True):
    """One event, encoded once for all listeners."""

    name: EventName
    data: bytes
    key: str | None = None
    """If set, a newer event with the same name and key replaces this one in a queue."""


class Subscription:
    """One listener's queue, in which events with a key replace older ones.

    A listener that is `QUEUE_LIMIT` events behind is disconnected, since it would miss events: it
    connects again and starts from a fresh snapshot. `pages_of` is the path of the model whose pages
    it watches.
    """

    def __init__(self, pages_of: str | None = None) -> None:
        self.pages_of = pages_of
        self._queue: deque[Broadcast] = deque()
        self._waiting = asyncio.Event()
        self._ended = False

    def put(self, event: Broadcast) -> None:
        """Queue an event, in place of an older one with the same name and key."""
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
        """End the stream after the queued events."""
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
    """Passes state changes and gauges to all listeners, without waiting for any of them."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._encoder = msgspec.json.Encoder()
        self._closed = False
        self.on_listeners: Callable[[], None] | None = None
        """Called when the first listener subscribes and when the last one leaves."""

    @property
    def listeners(self) -> int:
        """The number of listeners."""
        return len(self._subscriptions)

    def publish(
        self,
        name: EventName,
        data: msgspec.Struct,
        *,
        replaces: str | None = None,
        pages_of: str | None = None,
    ) -> None:
        """Send an event to all listeners, or only to those that watch the pages of `pages_of`.

        `replaces` is the key under which it replaces an older event in the queues.
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
        """Send an event to one listener; see `publish`."""
        subscription.put(Broadcast(name, self._encoder.encode(data), replaces))

    @contextmanager
    def subscribe(self, *, pages_of: str | None = None) -> Generator[Subscription]:
        """Listen while the context lasts."""
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
        """End all streams."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.end()

    def _listeners_changed(self) -> None:
        if self.on_listeners is not None:
            self.on_listeners()
