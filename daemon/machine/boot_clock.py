"""A clock that goes on while the machine sleeps."""

from __future__ import annotations

import sys
import time


def boot_time() -> float:
    """Seconds since some fixed moment, those of a suspended machine included.

    `time.monotonic` stands still meanwhile on Linux and macOS, so that a model would outlive its
    keep-alive by a night; on Windows it does not.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()
