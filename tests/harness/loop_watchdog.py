"""Finds what holds a daemon's event loop: callbacks by their processor time, with their stacks."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any

LIMIT = 0.05
"""Seconds of processor time that one callback may take."""

_watching: ContextVar[bool] = ContextVar("_watching", default=False)


@dataclass
class HeldLoop:
    """A callback that took longer than the limit, in seconds of processor time."""

    callback: str
    seconds: float
    stack: str

    def __str__(self) -> str:
        return f"{1000 * self.seconds:.0f} ms in {self.callback}\n{self.stack}"


class LoopWatchdog:
    """Measures all callbacks that began inside of `watching`, or of what these started.

    Collections of the whole heap do not count, since it is mostly that of the test run.
    """

    def __init__(self, limit: float = LIMIT) -> None:
        self.limit = limit
        self._began = 0.0
        self._collecting = 0.0
        self._stack = ""
        self.held: list[HeldLoop] = []

    @contextmanager
    def watching(self) -> Generator[None]:
        """Measure what starts in this block, also after it."""
        token = _watching.set(True)
        try:
            yield
        finally:
            _watching.reset(token)

    @contextmanager
    def installed(self) -> Generator[None]:
        """Measure the callbacks of this thread's event loops; for the main thread."""
        run = asyncio.Handle._run  # pyright: ignore[reportPrivateUsage]

        def measured(handle: asyncio.Handle) -> None:
            context: Context = handle._context  # type: ignore[attr-defined]
            if not context.get(_watching, False):
                run(handle)
                return
            name = repr(handle)
            self._stack = ""
            self._began = time.thread_time()
            signal.setitimer(signal.ITIMER_PROF, self.limit)
            try:
                run(handle)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                seconds = time.thread_time() - self._began
                if seconds > self.limit:
                    self.held.append(HeldLoop(name, seconds, self._stack))

        before = signal.signal(signal.SIGPROF, self._note_stack)
        gc.callbacks.append(self._note_collection)
        asyncio.Handle._run = measured  # type: ignore[method-assign]
        try:
            yield
        finally:
            asyncio.Handle._run = run  # type: ignore[method-assign]
            gc.callbacks.remove(self._note_collection)
            signal.signal(signal.SIGPROF, before)

    def _note_stack(self, number: int, frame: FrameType | None) -> None:
        """Keep the stack once the limit is reached; the timer counts other threads, too."""
        left = self.limit - (time.thread_time() - self._began)
        if left > 0:
            signal.setitimer(signal.ITIMER_PROF, max(left, 0.001))
        elif not self._stack:
            self._stack = "".join(traceback.format_stack(frame))

    def _note_collection(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._began += time.thread_time() - self._collecting
