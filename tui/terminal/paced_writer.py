"""`PacedWriter`: the thread that writes to the terminal."""

from __future__ import annotations

import threading
import time
from typing import IO

from .line_speed import FARTHEST, MOST, QUERY, LineSpeed
from .output_queue import OutputQueue


class PacedWriter(threading.Thread):
    """Writes at the speed of the terminal; its methods may be called from any thread."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(daemon=True, name="terminal-output")
        self._file = file
        self._changed = threading.Condition()
        self._queue = OutputQueue()
        self._speed = LineSpeed()
        self._ended = False

    @property
    def replies(self) -> bool:
        """Whether the terminal tells how fast it displays."""
        return self._speed.replies

    @property
    def is_behind(self) -> bool:
        """Whether output waits for the terminal."""
        return bool(self._queue)

    def write(self, text: str, *, first: bool = False) -> None:
        """Write text; with `first`, before what waits for other rows of the screen."""
        with self._changed:
            self._queue.put(text, first=first)
            self._changed.notify_all()

    def replied(self) -> None:
        """The terminal has displayed all up to a query."""
        with self._changed:
            self._speed.replied(time.monotonic())
            self._changed.notify_all()

    def wait_for_replies(self) -> None:
        """Wait for the replies that are still to come, for as long as the way may take."""
        with self._changed:
            self._changed.wait_for(lambda: not self._speed.expects_reply, FARTHEST)

    def run(self) -> None:
        """Write until `stop`, and then the rest."""
        while (text := self._next()) is not None:
            self._file.write(text)
            self._file.flush()

    def _next(self) -> str | None:
        with self._changed:
            while not self._ended:
                now = time.monotonic()
                room = self._speed.room(now)
                if self._queue and room > 0:
                    text = self._queue.take(room)
                    self._speed.sent(len(text), now)
                    return text + QUERY
                self._changed.wait(self._speed.patience(now) if self._queue else None)
            # No more queries: their replies would be input of the next program.
            return self._queue.take(MOST) if self._queue else None

    def stop(self) -> None:
        """Write what waits, and end the thread."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.join()
