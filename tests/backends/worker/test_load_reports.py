"""The progress of a load: percents, and signs that the disk delivers."""

from __future__ import annotations

import queue
import threading
from itertools import chain, repeat

import pytest

from ingle.backends.worker import load_reports
from ingle.backends.worker.load_reports import LoadReports
from ingle.backends.worker.worker_protocol import FromWorker, Loading


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_reports, "_LOOK_EVERY", 0.001)


def test_percents_are_sent_once_and_again_only_later(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[FromWorker] = []
    reports = LoadReports(sent.append, lambda: 0)
    for fraction in (0.0, 0.001, 0.5, 0.502, 1.0, 1.0):
        reports(fraction)
    assert sent == [Loading(0.0), Loading(0.5), Loading(1.0)]
    monkeypatch.setattr(load_reports, "_AGAIN_AFTER", 0.0)
    reports(1.0)
    reports.close()
    assert sent[3:] == [Loading(1.0)]


def test_slow_disk_counts_as_progress_and_silence_does_not() -> None:
    sent: queue.Queue[FromWorker] = queue.Queue()
    looked = threading.Semaphore(0)
    counts = chain((5, 5, 5, 8), repeat(8))

    def blocks_read() -> int:
        looked.release()
        return next(counts)

    reports = LoadReports(sent.put, blocks_read)
    reports(0.2)
    for _ in range(20):
        looked.acquire()
    reports.close()
    assert [sent.get_nowait() for _ in range(sent.qsize())] == [Loading(0.2), Loading(0.2)]


def test_disk_is_not_watched_before_the_first_report() -> None:
    sent: list[FromWorker] = []
    counts = iter(range(9))
    LoadReports(sent.append, lambda: next(counts)).close()
    assert next(counts) == 0
    assert not sent
