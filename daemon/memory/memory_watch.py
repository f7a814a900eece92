"""`MemoryWatch`: notices while models are loaded what others do to the machine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ..machine.boot_clock import boot_time
from .memory_allocator import MemoryAllocator

log = logging.getLogger("ingle.daemon")

INTERVAL = 5.0
TIMES = 2
"""Readings in a row, so that a moment's need unloads nobody."""
ASLEEP_SECONDS = 5.0
WHY = "Unloaded because other programs took the memory."


class MemoryWatch:
    """Unloads idle models where other programs take their memory, and tells of a resume.

    It runs only while there are models: a daemon without any never wakes up.
    """

    def __init__(
        self,
        room: MemoryAllocator,
        on_resume: Callable[[], Awaitable[None]],
        *,
        interval: float = INTERVAL,
        clock: Callable[[], float] = boot_time,
        awake: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` goes on while the machine sleeps, `awake` does not."""
        self._room = room
        self._on_resume = on_resume
        self._interval = interval
        self._clock = clock
        self._awake = awake
        self._task: asyncio.Task[None] | None = None
        self._short = 0
        self._helpless = False

    def follow(self, on: bool) -> None:
        """Watch from now on, or no longer."""
        if on and self._task is None:
            self._short, self._helpless = 0, False
            self._task = asyncio.create_task(self._watch(), name="memory watch")
        elif not on and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        asleep, failing = self._asleep(), False
        while True:
            await asyncio.sleep(self._interval)
            before, asleep = asleep, self._asleep()
            try:
                await self._look(asleep - before)
            except Exception as error:
                # Whatever a driver or the system raised once, the next look may find it well.
                if not failing:
                    log.warning("The machine's memory cannot be watched: %r", error)
                failing = True
            else:
                failing = False

    async def _look(self, slept: float) -> None:
        if slept > ASLEEP_SECONDS:
            log.info("The machine slept for %d seconds", slept)
            await self._on_resume()
        self._short = self._short + 1 if await asyncio.to_thread(self._room.is_short) else 0
        if self._short < TIMES:
            self._helpless = self._helpless and self._short > 0
            return
        self._short = 0
        ended = await self._room.relieve(WHY)
        if not ended and not self._helpless:
            log.warning("Other programs took memory of the models, and none is idle")
        self._helpless = not ended

    def _asleep(self) -> float:
        """Seconds that one clock is ahead of the other."""
        return self._clock() - self._awake()
