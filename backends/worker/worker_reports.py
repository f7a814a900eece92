"""What a worker tells of itself unasked: gauges, and pages while somebody looks at them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ..base.model_info import Gauges
from ..engine.engine import Engine
from .worker_protocol import FromWorker, GaugesReport, PagesReport

_INTERVAL = 0.25


class WorkerReports:
    """Sends what has changed, a few times a second at most; the last state is always sent."""

    def __init__(self, engine: Engine, send: Callable[[FromWorker], None]) -> None:
        self._engine = engine
        self._send = send
        self._gauges_due = 0.0
        self._reported = Gauges()
        self._shows_pages = False
        self._pages_moved = False
        self._pages_due = 0.0

    def watch_pages(self, on: bool) -> None:
        """Somebody looks at the pages, and sees them at once; or nobody does."""
        self._shows_pages = self._pages_moved = on
        self._pages_due = 0.0

    def pages_moved(self) -> None:
        """Something in the cache changed."""
        self._pages_moved = True

    @property
    def due_in(self) -> float:
        """Seconds until pages are to be told of; infinite where they are not."""
        if not (self._shows_pages and self._pages_moved):
            return math.inf
        return max(0.0, self._pages_due - time.monotonic())

    def send_due(self) -> None:
        """Tell the daemon what changed: at intervals while busy, gauges at once when idle."""
        now = time.monotonic()
        if now >= self._gauges_due or not self._engine.has_work:
            gauges = self._engine.gauges()
            if gauges != self._reported:
                self._gauges_due = now + _INTERVAL
                self._reported = gauges
                self._send(GaugesReport(gauges))
        if self._shows_pages and self._pages_moved and now >= self._pages_due:
            self._pages_moved = False
            self._pages_due = now + _INTERVAL
            self._send(PagesReport(self._engine.page_map()))
