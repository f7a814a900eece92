"""A clock that goes on while the machine sleeps."""

from __future__ import annotations

import sys
import time


def boot_time() -> float:
    """Return the seconds since a fixed time, including those that the machine was suspended.

    `time.monotonic` stops during suspend on Linux and macOS, so a model would outlive its
    keep-alive by a night; on Windows it does not.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()
