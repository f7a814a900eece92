"""Publishing what moves, as often as somebody can see it, and never to nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from .device_meters import DeviceGauges, DeviceMeters
from .events import EventHub
from .lifecycle import ModelManager
from .memory import MemoryReader
from .protocols.native.types import GaugesEvent
from .pulls import PullManager

log = logging.getLogger("ingle.daemon")

MOVING_SECONDS = 0.5
RESTING_SECONDS = 5.0


class GaugePublisher:
    """Publishes gauges while there are listeners: often while something moves, else rarely."""

    def __init__(
        self,
        hub: EventHub,
        manager: ModelManager,
        pulls: PullManager,
        memory: MemoryReader,
        devices: Callable[[], list[DeviceGauges]] | None = None,
    ) -> None:
        """`devices` is called in a thread, while there are listeners."""
        self._hub = hub
        self._manager = manager
        self._pulls = pulls
        self._memory = memory
        self._devices = devices or DeviceMeters().read
        self._task: asyncio.Task[None] | None = None
        hub.on_listeners = self._listeners_changed

    async def snapshot(self) -> GaugesEvent:
        """The gauges now."""
        devices: list[DeviceGauges] = []
        try:  # in a thread, since a driver may take milliseconds for an answer
            devices = await asyncio.to_thread(self._devices)
        except Exception:  # whatever a driver does, the rest is worth telling
            log.exception("Devices are not read any more")
            self._devices = _none
        return GaugesEvent(self._memory(), self._manager.loaded(), devices)

    def close(self) -> None:
        """Stop for good."""
        self._hub.on_listeners = None
        if self._task is not None:
            self._task.cancel()

    def _listeners_changed(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._hub.listeners:
            self._task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        rested, moved = 0.0, False
        self._hub.publish("gauges", await self.snapshot(), replaces="gauges")
        while True:
            await asyncio.sleep(MOVING_SECONDS)
            rested += MOVING_SECONDS
            moving = self._manager.in_motion or bool(self._pulls.running())
            # Once more when all is at rest: nobody shall see for seconds what was true before.
            if moving or moved or rested >= RESTING_SECONDS:
                rested, moved = 0.0, moving
                self._hub.publish("gauges", await self.snapshot(), replaces="gauges")


def _none() -> list[DeviceGauges]:
    return []
