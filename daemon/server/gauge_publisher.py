"""Publishes gauges to subscribers, often while something changes, never without subscribers."""

from __future__ import annotations

import asyncio
import logging

from ..client.daemon_types import DeviceGauges, GaugesEvent
from ..services import Services

log = logging.getLogger("ingle.daemon")

MOVING_SECONDS = 0.5
RESTING_SECONDS = 5.0


class GaugePublisher:
    """Publishes gauges while there are subscribers: often while something changes, else rarely."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._hub = services.hub
        self._devices = services.devices.read
        self._reading: asyncio.Future[list[DeviceGauges]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._hub.on_listeners = self._listeners_changed

    async def snapshot(self) -> GaugesEvent:
        """Return the gauges now."""
        # A driver may be slow: subscribers that come and go meanwhile start no second reading.
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read_devices())
        devices = await asyncio.shield(self._reading)
        memory = await asyncio.to_thread(self._services.memory)
        return GaugesEvent(memory, self._services.manager.loaded(), devices)

    async def _read_devices(self) -> list[DeviceGauges]:
        try:  # in a thread, since a driver may take milliseconds to answer
            return await asyncio.to_thread(self._devices)
        except Exception:  # whatever a driver raises, the other gauges are published
            log.exception("Devices are not read any more")
            self._devices = list
            return []

    def close(self) -> None:
        """Stop for good."""
        self._hub.on_listeners = None
        for task in (self._task, self._reading):
            if task is not None:
                task.cancel()

    def _listeners_changed(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._services.devices.hold(self._hub.listeners > 0)
        if self._hub.listeners:
            self._task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        rested, moved = 0.0, False
        self._hub.publish("gauges", await self.snapshot(), replaces="gauges")
        while True:
            await asyncio.sleep(MOVING_SECONDS)
            rested += MOVING_SECONDS
            moving = self._services.manager.in_motion or bool(self._services.pulls.running())
            # Once more when all is idle, so that subscribers do not show outdated values for
            # seconds.
            if moving or moved or rested >= RESTING_SECONDS:
                rested, moved = 0.0, moving
                self._hub.publish("gauges", await self.snapshot(), replaces="gauges")
