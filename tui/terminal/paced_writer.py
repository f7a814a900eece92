"""`PacedWriter`: the thread that writes to the terminal."""

from __future__ import annotations

import threading
import time
from typing import IO

from .output_queue import OutputQueue

MOST_WAITING = 400_000
"""Characters that may wait; whatever draws more waits itself."""


class PacedWriter(threading.Thread):
    """Writes at the speed of the terminal; its methods may be called from any thread."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(daemon=True, name="terminal-output")
        self._file = file
        self._changed = threading.Condition()
        self._queue = OutputQueue()
        self._ended = False

    @property
    def replies(self) -> bool:
        """Whether the terminal tells how fast it displays."""
        return self._queue.replies

    @property
    def is_behind(self) -> bool:
        """Whether output waits for the terminal."""
        return self._queue.size > 0

    def write(self, text: str, *, first: bool = False) -> None:
        """Write text; with `first`, before what waits for other rows of the screen."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue.size < MOST_WAITING or self._ended)
            self._queue.put(text, first=first)
            self._changed.notify_all()

    def replied(self) -> None:
        """The terminal has displayed all up to a query."""
        with self._changed:
            self._queue.replied(time.monotonic())
            self._changed.notify_all()

    def run(self) -> None:
        """Write until `stop`, and then the rest."""
        while (text := self._next()) is not None:
            self._file.write(text)
            self._file.flush()

    def _next(self) -> str | None:
        with self._changed:
            while True:
                wait = self._queue.wait_seconds(time.monotonic())
                if wait == 0.0 or (wait is not None and self._ended):
                    text = self._queue.take(time.monotonic())
                    self._changed.notify_all()
                    return text
                if self._ended:
                    return None
                self._changed.wait(wait)

    def stop(self) -> None:
        """Write what waits, and end the thread."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.join()
