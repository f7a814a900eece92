"""The events of a generation: quick to write while it runs, and small once it has ended."""

from __future__ import annotations

from array import array

import msgspec

EVENT_BYTES = 230
"""What an event and its piece of text take in memory beside what is sent of it, as measured."""
PACKED_BYTES = 5
"""The same once its log is packed."""


class LoggedEvent(msgspec.Struct, frozen=True):
    """One event, encoded once for everybody who follows."""

    number: int
    name: str
    data: bytes


class GenerationLog:
    """Events, numbered from 1; `size` is what they take in memory, in bytes."""

    def __init__(self) -> None:
        self.size = 0
        self._events: list[LoggedEvent] = []
        self._data = b""
        self._ends = array("I")
        self._names: list[str] = []
        self._name_of = b""

    def __len__(self) -> int:
        return len(self._events) or len(self._ends)

    def append(self, name: str, data: bytes) -> None:
        """Put an event behind the others, which are not packed."""
        self._events.append(LoggedEvent(len(self._events) + 1, name, data))
        self.size += len(data) + EVENT_BYTES

    def behind(self, number: int, most: int) -> list[LoggedEvent]:
        """At most so many of the events behind this number."""
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

    def pack(self) -> None:
        """Put all events into one piece of memory, since there will be no more."""
        events, self._events = self._events, []
        self._names = list(dict.fromkeys(event.name for event in events))
        self._name_of = bytes(self._names.index(event.name) for event in events)
        end = 0
        for event in events:
            end += len(event.data)
            self._ends.append(end)
        self._data = b"".join(event.data for event in events)
        self.size = len(self._data) + PACKED_BYTES * len(events)
