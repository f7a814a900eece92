"""Limits the redraw rate of a growing answer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

FLUSHES_PER_SECOND = 20
FLUSHES_PER_SECOND_SSH = 8
BUSY_FRACTION = 0.25
"""The largest share of time for drawing, so that keys stay responsive."""


class RenderThrottle:
    """Calls `paint` soon after `request`, at a bounded rate; idle between requests."""

    def __init__(self, paint: Callable[[], None]) -> None:
        self._paint = paint
        self._over_ssh = "SSH_CONNECTION" in os.environ
        self._handle: asyncio.TimerHandle | None = None
        self._next_at = 0.0

    def request(self) -> None:
        """Request a redraw; several requests before it count once."""
        if self._handle is None:
            delay = max(0.0, self._next_at - time.monotonic())
            self._handle = asyncio.get_running_loop().call_later(delay, self.flush)

    def flush(self) -> None:
        """Redraw now."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        start = time.monotonic()
        self._paint()
        spent = time.monotonic() - start
        rate = FLUSHES_PER_SECOND_SSH if self._over_ssh else FLUSHES_PER_SECOND
        self._next_at = start + max(1 / rate, spent / BUSY_FRACTION)
