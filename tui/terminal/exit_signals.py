"""`ending_signals`: what asks a program to end, and lets it leave in good order."""

from __future__ import annotations

import signal


def ending_signals() -> list[int]:
    """A `kill`, and the hang-up of a terminal that was closed; under nohup that stays ignored."""
    numbers = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    return [
        number
        for number in numbers
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN
    ]
