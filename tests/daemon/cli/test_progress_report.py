"""Download progress on terminals of any width, and in logs."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace

from ingle.daemon.cli.progress_report import (
    LINE_INTERVAL,
    ProgressReport,
    progress_bar,
    progress_line,
)
from ingle.daemon.client.model_types import DownloadProgress


@pytest.fixture
def progress() -> DownloadProgress:
    return DownloadProgress(
        model="smollm2:135m",
        status="downloading",
        source="hub",
        received=42_100_000,
        total=98_362_432,
        bytes_per_second=12_300_000.0,
        eta=4.6,
    )


class Terminal(io.StringIO):
    """A stream that reports being a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_bar_shows_percentage_size_rate_and_eta(progress: DownloadProgress) -> None:
    bar = progress_bar(progress, 80)
    assert bar.startswith("smollm2:135m  ━━━━")
    assert bar.endswith(" 43%  42.1 MB of 98.4 MB  12.3 MB/s  4.6 s left")
    assert len(bar) <= 80


def test_bar_fits_every_width(progress: DownloadProgress) -> None:
    for columns in range(1, 200):
        assert len(progress_bar(progress, columns)) <= columns
    assert "43%" in progress_bar(progress, 24)


def test_percentage_is_capped_at_100(progress: DownloadProgress) -> None:
    progress = replace(progress, received=2 * 98_362_432)
    assert "100%" in progress_bar(progress, 80)


def test_unknown_total_shows_no_percentage(progress: DownloadProgress) -> None:
    progress = replace(progress, total=None, eta=None)
    assert progress_bar(progress, 80) == "smollm2:135m  downloading  42.1 MB  12.3 MB/s"
    assert progress_line(progress) == "smollm2:135m: downloading, 42.1 MB, 12.3 MB/s"


def test_terminal_rewrites_one_line(progress: DownloadProgress) -> None:
    stream = Terminal()
    report = ProgressReport(stream)
    report.show(progress)
    report.show(progress)
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().count("\r") == 2
    report.close()
    report.close()
    assert stream.getvalue().endswith("left\x1b[K\n")


def test_erase_clears_the_terminal_line() -> None:
    stream = Terminal()
    report = ProgressReport(stream)
    report.show_loading("m\x1b[2J", 0.4)
    report.erase()
    report.close()
    assert stream.getvalue() == "\rLoading m[2J 40%\x1b[K\r\x1b[K"


def test_log_lines_are_rate_limited(progress: DownloadProgress) -> None:
    now = [0.0]
    stream = io.StringIO()
    report = ProgressReport(stream, clock=lambda: now[0])
    report.show(replace(progress, status="resolving"))
    for tenth in range(100):  # ten seconds
        now[0] = tenth / 10
        report.show(progress)
    report.show_loading("m", 0.4)
    report.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2 + int(9.9 // LINE_INTERVAL)
    assert lines[1] == ("smollm2:135m: downloading, 43%, 42.1 MB of 98.4 MB, 12.3 MB/s, 4.6 s left")
    assert "\r" not in stream.getvalue()


def test_bar_falls_back_to_ascii(progress: DownloadProgress) -> None:
    class Latin(Terminal):
        encoding = "latin-1"

    stream = Latin()
    ProgressReport(stream).show(progress)
    stream.getvalue().encode("ascii")
    assert "====" in stream.getvalue()
