"""Watches, while models are loaded, for memory pressure and for resume from sleep."""

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
"""Readings in a row, so that a short peak does not unload a model."""
ASLEEP_SECONDS = 5.0
WHY = "Unloaded because other programs took the memory."


class MemoryWatch:
    """Unloads idle models if other programs take their memory, and reports a resume from sleep.

    It runs only while models are loaded: otherwise the daemon never wakes up.
    """

    def __init__(
        self,
        allocator: MemoryAllocator,
        on_resume: Callable[[], Awaitable[None]],
        *,
        interval: float = INTERVAL,
        clock: Callable[[], float] = boot_time,
        awake: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` runs while the machine sleeps, `awake` does not."""
        self._allocator = allocator
        self._on_resume = on_resume
        self._interval = interval
        self._clock = clock
        self._awake = awake
        self._task: asyncio.Task[None] | None = None
        self._short = 0
        self._helpless = False

    def follow(self, on: bool) -> None:
        """Start or stop watching."""
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
                # A reading may fail once for a transient reason of the driver or the system.
                if not failing:
                    log.warning("Cannot read the machine's memory: %r", error)
                failing = True
            else:
                failing = False

    async def _look(self, slept: float) -> None:
        if slept > ASLEEP_SECONDS:
            log.info("The machine slept for %d seconds", slept)
            await self._on_resume()
        self._short = (
            self._short + 1 if await asyncio.to_thread(self._allocator.ledger.is_short) else 0
        )
        if self._short < TIMES:
            self._helpless = self._helpless and self._short > 0
            return
        self._short = 0
        ended = await self._allocator.evict_for_pressure(WHY)
        if not ended and not self._helpless:
            log.warning("Other programs took memory of the models, and no model is idle")
        self._helpless = not ended

    def _asleep(self) -> float:
        """Return the seconds that the machine has slept since the start."""
        return self._clock() - self._awake()
