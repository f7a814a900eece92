"""Signal handlers for an orderly exit."""

from __future__ import annotations

import signal
import sys


def ending_signals() -> list[int]:
    """Return SIGTERM, and SIGHUP unless it is ignored, as under nohup."""
    numbers = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    return [
        number
        for number in numbers
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN
    ]


def exit_on_signals() -> None:
    """Exit in an orderly way on `kill` and when the terminal closes, so that no message is lost."""
    for number in ending_signals():
        signal.signal(number, _exit)


def _exit(number: int, _frame: object) -> None:
    # An exception, so that terminal and history are closed on the way out.
    sys.exit(128 + number)
