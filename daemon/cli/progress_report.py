"""Download progress: a bar that stays on its line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TextIO

from ..terminal.terminal_output import format_bytes, format_seconds, strip_control_characters

if TYPE_CHECKING:
    from ..client.engine_types import InstallProgress
    from ..client.model_types import DownloadProgress

LINE_INTERVAL = 5.0
"""Seconds between two plain lines."""

_ERASE_TO_END = "\x1b[K"


class ProgressReport:
    """Shows progress on `stream`, and erases its line at the end of a `with` block.

    Call `close` before anything else is printed.
    """

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._is_terminal = self._stream.isatty()
        self._open = False
        self._last_status = ""
        self._last_time = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()

    def show(self, progress: DownloadProgress) -> None:
        """Show the progress of a pull."""
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns
            self._rewrite(progress_bar(progress, columns - 1, self._fill()))
        elif self._is_due(progress.status):
            print(progress_line(progress), file=self._stream, flush=True)

    def show_install(self, progress: InstallProgress) -> None:
        """Show the progress of the installation of an engine."""
        text = f"{progress.title}: {progress.text()}"
        if self._is_terminal:
            detail = f"  {progress.detail}" if progress.detail else ""
            self.show_step(f"{text}{detail}")
        elif self._is_due(progress.step):
            print(strip_control_characters(text), file=self._stream, flush=True)

    def show_loading(self, model: str, fraction: float | None = None) -> None:
        """Show that a model is loading; only in a terminal, where the line is erased afterwards."""
        if self._is_terminal:
            share = "" if fraction is None else f" {fraction:.0%}"
            self._rewrite(f"Loading {strip_control_characters(model)}{share}")

    def show_step(self, text: str, *, in_lines: bool = False) -> None:
        """Show a step of long work in a terminal, where the line is erased afterwards.

        With `in_lines` others get plain lines, one in `LINE_INTERVAL`.
        """
        text = strip_control_characters(text)
        if self._is_terminal:
            self._rewrite(text[: shutil.get_terminal_size().columns - 1])
        elif in_lines and self._is_due("step"):
            print(text, file=self._stream, flush=True)

    def erase(self) -> None:
        """Erase the line in a terminal."""
        self._end(f"\r{_ERASE_TO_END}")

    def close(self) -> None:
        """Keep the line in a terminal, and start a new one."""
        self._end("\n")

    def _end(self, text: str) -> None:
        if self._open:
            self._stream.write(text)
            self._stream.flush()
            self._open = False

    def _rewrite(self, line: str) -> None:
        self._stream.write(f"\r{line}{_ERASE_TO_END}")
        self._stream.flush()
        self._open = True

    def _is_due(self, status: str) -> bool:
        now = self._clock()
        if status == self._last_status and now - self._last_time < LINE_INTERVAL:
            return False
        self._last_status, self._last_time = status, now
        return True

    def _fill(self) -> str:
        utf8 = (self._stream.encoding or "").lower().replace("-", "") == "utf8"
        return "━" if utf8 else "="


def progress_bar(progress: DownloadProgress, columns: int, fill: str = "━") -> str:
    """Return name, bar, share, size, speed and time left in `columns` cells; parts that do not fit
    are left out.
    """
    name = strip_control_characters(progress.model)
    facts = _facts(progress)
    total = progress.total
    if not total or progress.status == "resolving":
        return f"{name}  {progress.status}  {'  '.join(facts)}".rstrip()[:columns]
    share = min(1.0, progress.received / total)
    while facts and len(name) + len("  ".join(facts)) + 20 > columns:
        facts.pop()
    text = "  ".join([f"{share:4.0%}", *facts])
    room = min(40, columns - len(name) - len(text) - 4)
    if room < 4:
        return f"{name}  {text}"[:columns]
    done = round(share * room)
    return f"{name}  {fill * done}{' ' * (room - done)}  {text}"


def progress_line(progress: DownloadProgress) -> str:
    """Return the same as one plain line for logs."""
    total = progress.total
    facts = _facts(progress)
    if total:
        facts.insert(0, f"{min(1.0, progress.received / total):.0%}")
    text = strip_control_characters(f"{progress.model}: {progress.status}")
    return f"{text}, {', '.join(facts)}" if facts else text


def _facts(progress: DownloadProgress) -> list[str]:
    """Return the facts, most important first."""
    received, total, eta = progress.received, progress.total, progress.eta
    facts: list[str] = []
    if received or total:
        size = format_bytes(received) if received else "0 B"
        facts.append(f"{size} of {format_bytes(total)}" if total else size)
    if progress.status == "downloading" and progress.bytes_per_second > 0:
        facts.append(f"{format_bytes(progress.bytes_per_second)}/s")
        if eta is not None:
            facts.append(f"{format_seconds(max(1.0, eta))} left")
    return facts
