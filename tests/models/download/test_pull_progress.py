from __future__ import annotations

import pytest

from ingle.models.download.pull_progress import PullProgress, PullReporter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    return clock


def test_progress_is_throttled_except_the_last_report(clock: Clock) -> None:
    reports: list[PullProgress] = []
    reporter = PullReporter("m", 10_000, reports.append)
    reporter.status("downloading", "here")
    for received in range(1, 10_001):
        clock.now += 0.001
        reporter.advance(received, None)
    assert 95 <= len(reports) <= 105
    assert reports[0].status == "downloading"
    assert reports[0].source == "here"
    assert reports[-1].received == 10_000
    assert reports[-1].eta == 0


def test_speed_is_averaged_over_the_last_seconds(clock: Clock) -> None:
    reports: list[PullProgress] = []
    reporter = PullReporter("m", 1_000_000, reports.append)
    reporter.status("downloading")
    received = 0
    for speed in (1000, 5000):
        for _ in range(100):
            clock.now += 0.1
            received += speed // 10
            reporter.advance(received, None)
    assert reports[-1].bytes_per_second == pytest.approx(5000, rel=0.02)
    assert reports[-1].eta == pytest.approx((1_000_000 - received) / 5000, rel=0.02)


def test_size_that_becomes_known_during_the_download(clock: Clock) -> None:
    reports: list[PullProgress] = []
    reporter = PullReporter("m", None, reports.append)
    reporter.status("downloading")
    assert reports[-1].total is None
    assert reports[-1].eta is None
    clock.now += 1
    reporter.advance(10, 100)
    assert reports[-1].total == 100


def test_restarted_download_has_no_negative_speed(clock: Clock) -> None:
    reports: list[PullProgress] = []
    reporter = PullReporter("m", 1000, reports.append)
    for received in (500, 900, 0, 100):
        clock.now += 0.5
        reporter.advance(received, None)
    assert all(report.bytes_per_second >= 0 for report in reports)
    assert reports[-1].bytes_per_second == pytest.approx(200)
