"""The events of a run: quick to append while it runs, and small once it has ended."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncGenerator

import msgspec

EVENT_BYTES = 230
"""Measured memory of an event and its piece of text, in addition to its data."""
PACKED_BYTES = 5
"""The same once its log is packed."""

MAX_AT_ONCE = 256
"""Events that go to a follower in one piece."""


class LoggedEvent(msgspec.Struct, frozen=True):
    """One event, encoded once for all followers."""

    number: int
    name: str
    data: bytes


class GenerationLog:
    """Events, numbered from 1; `size` is their memory in bytes."""

    def __init__(self) -> None:
        self.size = 0
        self._events: list[LoggedEvent] = []
        self._data = b""
        self._ends = array("I")
        self._names: list[str] = []
        self._name_of = b""
        self._news = asyncio.Event()
        self._is_complete = False

    def __len__(self) -> int:
        return len(self._events) or len(self._ends)

    def append(self, name: str, data: bytes) -> None:
        """Append an event to a log that is not packed."""
        self._events.append(LoggedEvent(len(self._events) + 1, name, data))
        self.size += len(data) + EVENT_BYTES
        self._news.set()

    def behind(self, number: int, most: int) -> list[LoggedEvent]:
        """At most `most` of the events after this number."""
        if self._events:
            return self._events[number : number + most]
        places = range(number, min(number + most, len(self._ends)))
        return [
            LoggedEvent(
                place + 1,
                self._names[self._name_of[place]],
                self._data[self._ends[place - 1] if place else 0 : self._ends[place]],
            )
            for place in places
        ]

    async def follow(self, after: int) -> AsyncGenerator[list[LoggedEvent], None]:
        """Every event after number `after`, as many at a time as there are, until the last."""
        position = after
        while True:
            while news := self.behind(position, MAX_AT_ONCE):
                position += len(news)
                yield news
            if self._is_complete:
                return
            self._news.clear()
            await self._news.wait()

    def pack(self) -> None:
        """Put all events into one piece of memory after the last one."""
        self._is_complete = True
        self._news.set()
        events, self._events = self._events, []
        self._names = list(dict.fromkeys(event.name for event in events))
        self._name_of = bytes(self._names.index(event.name) for event in events)
        end = 0
        for event in events:
            end += len(event.data)
            self._ends.append(end)
        self._data = b"".join(event.data for event in events)
        self.size = len(self._data) + PACKED_BYTES * len(events)
