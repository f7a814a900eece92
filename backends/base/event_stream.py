"""`stream_events`: the events that a backend pushes, for whoever pulls them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from .events import Event, EventSink


async def stream_events(
    run: Callable[[EventSink], Coroutine[Any, Any, None]],
) -> AsyncGenerator[Event, None]:
    """Every event that `run` gives its sink, then what it raised; closing cancels it."""
    queue: asyncio.Queue[list[Event] | None] = asyncio.Queue()
    task = asyncio.create_task(run(queue.put_nowait))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (events := await queue.get()) is not None:
            for event in events:
                yield event
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
