"""Registry of the daemon's runs with their event logs; ended runs are kept for ten minutes."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import AsyncGenerator
from typing import Generic, Protocol, TypeVar

import msgspec

from ..errors import TooManyGenerations

EVENT_BYTES = 230
"""Measured memory per event and its piece of text, in addition to its data."""
PACKED_BYTES = 5
"""The same in a packed log."""

MAX_AT_ONCE = 256
"""Events that a follower gets in one list."""


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
        """Return at most `most` of the events after this number."""
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
        """Yield the events after number `after` in lists as they arrive, until the last one."""
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
        """Complete the log, and store its events compactly."""
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


MAX_RUNNING = 64
KEEP_SECONDS = 600.0
KEEP_BYTES = 64 * 2**20


class DaemonRun(Protocol):
    """A run of the daemon; `ended_at` is a monotonic time in seconds, None while it runs."""

    id: str
    task: asyncio.Task[None]
    ended_at: float | None

    @property
    def size(self) -> int:
        """Its memory in bytes, as far as that grows with its answer."""
        ...


Run = TypeVar("Run", bound=DaemonRun)


class RunRegistry(Generic[Run]):
    """All `runs` by id; ended ones are kept for ten minutes, and up to 64 MiB of the newest."""

    def __init__(
        self,
        *,
        max_running: int = MAX_RUNNING,
        keep_seconds: float = KEEP_SECONDS,
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        self.runs: dict[str, Run] = {}
        self._max_running = max_running
        self._keep_seconds = keep_seconds
        self._keep_bytes = keep_bytes
        self._sweep: asyncio.TimerHandle | None = None

    def check_room(self) -> None:
        """Raise `TooManyGenerations` if the limit of running ones is reached."""
        running = sum(run.ended_at is None for run in self.runs.values())
        if running >= self._max_running:
            raise TooManyGenerations(
                f"{running} generations are running already.",
                hint="Wait for one to end, or cancel one.",
            )

    def add(self, run: Run) -> None:
        """Add a run; it is dropped some time after its end."""
        self.runs[run.id] = run
        run.task.add_done_callback(lambda _: self._forget_old())

    def stop_sweeping(self) -> None:
        """Stop dropping ended runs, before the daemon exits."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _forget_old(self) -> None:
        """Drop runs that are too old or too large, and schedule the next sweep."""
        self.stop_sweeping()
        now = time.monotonic()
        ended = [(run.ended_at, run) for run in self.runs.values() if run.ended_at is not None]
        ended.sort(key=lambda item: item[0])
        size = sum(run.size for _, run in ended)
        for ended_at, run in ended:
            too_old = now - ended_at >= self._keep_seconds
            # The newest stays even if it alone is too large: its client waits for its end.
            if too_old or (size > self._keep_bytes and run is not ended[-1][1]):
                size -= run.size
                del self.runs[run.id]
        if oldest := next((at for at, run in ended if run.id in self.runs), None):
            delay = max(0.0, oldest + self._keep_seconds - now)
            self._sweep = asyncio.get_running_loop().call_later(delay, self._forget_old)
