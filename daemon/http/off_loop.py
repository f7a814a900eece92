"""Work on large bodies, in one thread of its own: what takes long must not hold the event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

LARGE = 2**16
"""Bytes of JSON from which work on it leaves the event loop."""

T = TypeVar("T")


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """The result of `work` on a body of so many bytes, in a thread if they are many."""
    if size <= LARGE:
        return work()
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_thread(), context.run, work)


@cache
def _thread() -> ThreadPoolExecutor:
    # One: with more, the event loop would wait for each of them whenever it wants to run.
    return ThreadPoolExecutor(1, "bodies")
