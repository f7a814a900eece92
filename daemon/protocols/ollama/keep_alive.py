"""How long a model stays loaded, as Ollama's clients say it."""

from __future__ import annotations

import re

from ...errors import InvalidBody
from .types import KeepAlive

FOR_EVER = -1.0
_LONGEST = 1e9
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = r"(?:[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})"
_PART = re.compile(rf"({_NUMBER})(ns|us|µs|ms|s|m|h)")
_DURATION = re.compile(rf"[-+]?(?:{_NUMBER}|(?:{_NUMBER}(?:ns|us|µs|ms|s|m|h))+)")


def keep_alive_seconds(wanted: KeepAlive | None) -> float | None:
    """Seconds after the last use, -1 for ever, None for the default; raises `InvalidBody`.

    >>> keep_alive_seconds("1h30m"), keep_alive_seconds("-1m"), keep_alive_seconds(300)
    (5400.0, -1.0, 300.0)
    """
    if wanted is None:
        return None
    seconds = _parse(wanted.strip()) if isinstance(wanted, str) else float(wanted)
    return FOR_EVER if seconds < 0 else min(seconds, _LONGEST)


def _parse(text: str) -> float:
    if len(text) > 100 or not _DURATION.fullmatch(text):
        raise InvalidBody(
            f"'keep_alive' is {text[:40]!r}, which is no duration.",
            hint='Write seconds as a number, or a text such as "5m", "1h30m" or "-1".',
            param="keep_alive",
        )
    sign = -1.0 if text.startswith("-") else 1.0
    parts = _PART.findall(text)
    if not parts:
        return float(text)
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)
