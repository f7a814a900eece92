"""Limits the redraw rate of a growing answer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from textual.app import App

FLUSHES_PER_SECOND = 20
FLUSHES_PER_SECOND_SSH = 8
"""The rate over SSH if the terminal does not tell how fast it displays."""
BUSY_FRACTION = 0.25
"""The largest share of time for drawing, so that keys stay responsive."""
BEHIND_SECONDS = 0.05
"""Seconds until a terminal that is behind is looked at again."""


@runtime_checkable
class PacedDriver(Protocol):
    """A driver that writes no faster than the terminal displays, if `is_paced`."""

    @property
    def is_paced(self) -> bool: ...

    @property
    def is_behind(self) -> bool:
        """Whether output waits for the terminal."""
        ...

    def writes_first(self) -> AbstractContextManager[None]:
        """Write what is drawn meanwhile before all that waits for other rows."""
        ...


def driver_of(app: App[Any]) -> PacedDriver | None:
    """The driver of an app; None for one that cannot pace, as on Windows and in tests."""
    driver = app._driver  # pyright: ignore[reportPrivateUsage]
    return driver if isinstance(driver, PacedDriver) else None


class RenderThrottle:
    """Calls `paint` soon after `request`, at a bounded rate; idle between requests.

    A terminal that is behind gets nothing new, so that its rate is that at which it displays.
    """

    def __init__(self, paint: Callable[[], None], driver: Callable[[], PacedDriver | None]) -> None:
        self._paint = paint
        self._driver = driver
        self._over_ssh = "SSH_CONNECTION" in os.environ
        self._handle: asyncio.TimerHandle | None = None
        self._next_at = 0.0

    def request(self) -> None:
        """Request a redraw; several requests before it count once."""
        if self._handle is None:
            delay = max(0.0, self._next_at - time.monotonic())
            self._handle = asyncio.get_running_loop().call_later(delay, self._flush_if_taken)

    def _flush_if_taken(self) -> None:
        """Redraw once the terminal has taken the last frame."""
        driver = self._driver()
        if driver is not None and driver.is_behind:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_later(BEHIND_SECONDS, self._flush_if_taken)
        else:
            self.flush()

    def flush(self) -> None:
        """Redraw now."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        start = time.monotonic()
        self._paint()
        spent = time.monotonic() - start
        driver = self._driver()
        slow = self._over_ssh and not (driver is not None and driver.is_paced)
        rate = FLUSHES_PER_SECOND_SSH if slow else FLUSHES_PER_SECOND
        self._next_at = start + max(1 / rate, spent / BUSY_FRACTION)
