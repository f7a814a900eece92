"""Progress of a download, as reported to the user."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import msgspec

from ..model_task import ModelTask
from ..sources.download_source import Cancelled, raise_if_cancelled

_INTERVAL = 0.1
_RATE_WINDOW = 3.0


class PullProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One report: bytes received, bytes in all, bytes a second, seconds left.

    `status` is a word or two for the user; `source` is empty before one was chosen. `task` is empty
    unless it is known before the files are here.
    """

    model: str
    status: str
    source: str = ""
    received: int = 0
    total: int | None = None
    bytes_per_second: float = 0.0
    eta: float | None = None
    task: str = ""


OnPullProgress = Callable[[PullProgress], None]


class PullReporter:
    """Turns byte counts into about ten reports a second, with the speed of the last seconds."""

    def __init__(
        self,
        model: str,
        total: int | None,
        on_progress: OnPullProgress,
        cancelled: Cancelled = lambda: False,
        task: ModelTask | None = None,
    ) -> None:
        self.cancelled = cancelled
        self._model = model
        self._total = total
        self._task = task
        self._on_progress = on_progress
        self._status = ""
        self._source = ""
        self._received = 0
        self._before = 0
        self._several = False
        self._last = 0.0
        self._window: deque[tuple[float, int]] = deque()

    def status(self, status: str, source: str = "") -> None:
        """Report a new phase at once."""
        self._status, self._source = status, source
        self._window.clear()
        self._report(time.monotonic())

    def check_cancelled(self) -> None:
        """Raise `PullCancelled` if the pull was cancelled."""
        raise_if_cancelled(self.cancelled)

    def begin_file(self, before: int) -> None:
        """Begin the next file of several, `before` bytes of the others being on the disk."""
        self._several = self._several or before > 0
        self._before = before

    def advance(self, received: int, total: int | None) -> None:
        """Record the progress of the file; reports it unless the last report is recent.

        `total` is used if the model's size was not known in advance.
        """
        now = time.monotonic()
        received += self._before
        if received < self._received:  # started over: what came before says nothing about speed
            self._window.clear()
        self._received = received
        if self._total is None and not self._several:
            self._total = total
        self._window.append((now, received))
        while self._window[0][0] < now - _RATE_WINDOW:
            self._window.popleft()
        if now - self._last >= _INTERVAL or received == self._total:
            self._report(now)

    def _report(self, now: float) -> None:
        self._last = now
        rate = self._rate()
        left = None if self._total is None else max(self._total - self._received, 0)
        self._on_progress(
            PullProgress(
                model=self._model,
                status=self._status,
                source=self._source,
                received=self._received,
                total=self._total,
                bytes_per_second=rate,
                eta=left / rate if left is not None and rate > 0 else None,
                task=self._task or "",
            )
        )

    def _rate(self) -> float:
        if len(self._window) < 2:
            return 0.0
        (start, first), (end, last) = self._window[0], self._window[-1]
        return (last - first) / (end - start) if end > start else 0.0
