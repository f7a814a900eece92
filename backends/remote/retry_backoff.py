"""Delays between retries of a request to a provider."""

from __future__ import annotations

import email.utils
import math
import random

RETRIED = frozenset({408, 429, 500, 502, 503, 504, 529})
"""HTTP statuses after which a retry may succeed."""

LONGEST_WAIT = 20.0
"""Longest seconds between two tries; if a provider asks for more, there is no retry."""

_FIRST = 0.5


def retry_after(header: str, now: float) -> float:
    """Return the seconds that the header `Retry-After` asks for at the time `now`; 0
    without one.
    """
    text = header.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < 20:
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
        return max(0.0, date.timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def backoff(attempt: int, draw: random.Random | None = None) -> float:
    """Return the seconds before retry `attempt`: exponential, with jitter."""
    most = min(LONGEST_WAIT, _FIRST * math.pow(2, attempt))
    source = draw or random.SystemRandom()
    return source.uniform(most / 2, most)
