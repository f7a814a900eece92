"""Speaks texts, one at a time, for as many requests as there are places."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ingle.backends.base.child_process import find_module
from ingle.backends.base.errors import RequestRejected
from ingle.backends.packages.engine_packages import SPEECH
from ingle.backends.packages.engine_store import EngineStore

from ..errors import QueueFull
from .voice_child import VoiceChild, voice_missing
from .voice_protocol import Sound, Speak

T = TypeVar("T")

log = logging.getLogger("ingle.daemon")

MOST_AT_ONCE = 8
"""Texts: one is spoken, the others wait."""
_IDLE_SECONDS = 60.0


class Speaker:
    """Speaks in a process that ends after an idle minute; for the event loop only."""

    def __init__(self, engines: EngineStore) -> None:
        self.requests = 0
        """How many texts were spoken."""
        self.seconds = 0.0
        """How many seconds of speech they are."""
        self._engines = engines
        self._process = VoiceChild()
        self._thread = ThreadPoolExecutor(1, "voice")
        self._lock = asyncio.Lock()
        self._held = 0
        self._idle: asyncio.TimerHandle | None = None

    async def speak(self, task: Speak) -> AsyncGenerator[Sound]:
        """Yield the parts of the sound.

        Raises `QueueFull`, `NotFound` without a voice, `RequestRejected` at the end of a text
        without words, and `BackendError`. To close it early ends the process.
        """
        if self._held >= MOST_AT_ONCE:
            raise QueueFull(
                f"{MOST_AT_ONCE} texts are being spoken, or wait for it.",
                hint="Try again later.",
                headers={"retry-after": "5"},
            )
        self._held += 1
        try:
            async with self._lock:
                async for part in self._spoken(task):
                    yield part
        finally:
            self._held -= 1

    async def _spoken(self, task: Speak) -> AsyncGenerator[Sound]:
        import_path = await asyncio.to_thread(self._import_path)
        if self._idle is not None:
            self._idle.cancel()
        began, seconds, ended = time.monotonic(), 0.0, False
        try:
            part = await self._in_thread(lambda: self._process.begin(task, import_path))
            while part is not None:
                seconds += part.seconds
                yield part
                part = await self._in_thread(self._process.next)
            ended = True
            if not seconds:
                raise RequestRejected(
                    "Nothing in the text can be spoken.",
                    hint="The voice reads English.",
                    param="input",
                )
        finally:
            if not ended:
                self.end()
            self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self.end)
        self.requests += 1
        self.seconds += seconds
        log.info("%.1f s of speech were made in %.1f s", seconds, time.monotonic() - began)

    @property
    def is_busy(self) -> bool:
        """Whether a text is being spoken."""
        return self._lock.locked()

    def end(self) -> None:
        """End the process, which the next text starts again."""
        self._process.close()

    def close(self) -> None:
        """End for good."""
        if self._idle is not None:
            self._idle.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self.end()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _import_path(self) -> list[str]:
        """Return the folders of the engine's packages; raises `NotFound`."""
        folders = self._engines.import_path([SPEECH])
        if not folders and find_module("hibari") is None:
            raise voice_missing()
        return folders
