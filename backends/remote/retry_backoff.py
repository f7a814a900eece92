"""When a provider may be asked again."""

from __future__ import annotations

import email.utils
import math
import random

RETRIED = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses of which the next try may end otherwise."""

LONGEST_WAIT = 20.0
"""Seconds between two tries; a provider that asks for more is not asked again."""

_FIRST = 0.5


def retry_after(header: str, now: float) -> float:
    """Seconds that the header `Retry-After` asks for at the time `now`; 0 where it says nothing."""
    text = header.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < 20:
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
        return max(0.0, date.timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def backoff(attempt: int, draw: random.Random | None = None) -> float:
    """Seconds before the try behind `attempt`: growing, and never the same for two clients."""
    most = min(LONGEST_WAIT, _FIRST * math.pow(2, attempt))
    source = draw or random.SystemRandom()
    return source.uniform(most / 2, most)
