"""Counts a draft's tokens when typing pauses, one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PAUSE = 0.6
"""Seconds without a key before a draft is counted."""


class DraftCounter:
    """`count` returns the tokens of a text, None if unknown; `show` receives the result."""

    def __init__(
        self,
        count: Callable[[str], Awaitable[int | None]],
        show: Callable[[str, int], None],
        *,
        pause: float = PAUSE,
    ) -> None:
        self._count = count
        self._show = show
        self._pause = pause
        self._text = ""
        self._running = False

    def change(self, text: str) -> bool:
        """Set the draft; returns True if the caller must call `run`."""
        self._text = text
        start = bool(text) and not self._running
        self._running = self._running or start
        return start

    async def run(self) -> None:
        """Count until the counted draft is the current one."""
        try:
            counted = ""
            while self._text != counted:
                text = self._text
                await asyncio.sleep(self._pause)
                if text != self._text:
                    continue
                tokens = await self._count(text) if text else None
                if tokens is not None:
                    self._show(text, tokens)
                counted = text
        finally:
            self._running = False
