"""The signals on which the program ends in good order."""

from __future__ import annotations

import signal


def ending_signals() -> list[int]:
    """Return SIGTERM, and SIGHUP unless it is ignored, as under nohup."""
    numbers = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    return [
        number
        for number in numbers
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN
    ]
