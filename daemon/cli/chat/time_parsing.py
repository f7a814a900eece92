"""Parses times as users type them."""

from __future__ import annotations

import time
from datetime import datetime

from ...settings.setting_parsers import InvalidSetting, parse_duration
from ..command_errors import UsageError


def parse_time(text: str | None) -> float | None:
    """Return the Unix seconds of "2h" (ago), "2026-01-31" or "2026-01-31T18:00", in local time.

    Raises `UsageError`.
    """
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        return time.time() - _ago(text)


def _ago(text: str) -> float:
    """Return the seconds of "2h"; a bare number is ambiguous and refused."""
    try:
        ago = parse_duration(text)
    except InvalidSetting:
        ago = -1.0
    if ago < 0 or text.strip().replace(".", "").isdigit():
        raise UsageError(
            f"'{text}' is not a time.", 'Write "2h" or "7d" for that long ago, or 2026-01-31T18:00.'
        )
    return ago
