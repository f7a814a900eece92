"""Several streams of events read as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")

BUFFERED = 64


async def fan_in(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[tuple[int, T], None]:
    """Each item with its stream's number, as they come; the first failure ends all of them."""
    if len(streams) == 1:
        async with aclosing(streams[0]) as only:
            async for item in only:
                yield 0, item
        return
    queue: asyncio.Queue[tuple[int, T] | Exception | None] = asyncio.Queue(BUFFERED)

    async def pump(number: int, stream: AsyncGenerator[T, None]) -> None:
        end: Exception | None = None
        try:
            async with aclosing(stream):
                async for item in stream:
                    await queue.put((number, item))
        except Exception as error:
            end = error
        await queue.put(end)

    pumps = [asyncio.create_task(pump(i, stream)) for i, stream in enumerate(streams)]
    try:
        running = len(pumps)
        while running:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                running -= 1
            else:
                yield item
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
