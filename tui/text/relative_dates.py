"""Formats times of chats relative to now."""

from __future__ import annotations

from datetime import datetime, timedelta


def moment(stamp: float, now: datetime) -> str:
    """Format a time, finer for recent ones; `stamp` in Unix seconds."""
    then = local_time(stamp)
    if then is None:
        return ""
    if then.date() == now.date():
        return f"{then:%H:%M}"
    if then.date() == (now - timedelta(days=1)).date():
        return f"yesterday {then:%H:%M}"
    if timedelta(0) < now - then < timedelta(days=6):
        return f"{then:%a %H:%M}"
    return f"{then.day} {then:%b}" if then.year == now.year else f"{then.day} {then:%b %Y}"


def day_group(stamp: float, now: datetime) -> str:
    """Return the heading under which a chat is listed."""
    then = local_time(stamp)
    if then is None:
        return "Some time"
    days = (now.date() - then.date()).days
    if days <= 0:
        return "Today"
    if days == 1:
        return "Yesterday"
    if days < 7:
        return "This week"
    return f"{then:%B}" if then.year == now.year else f"{then:%B %Y}"


def local_time(stamp: float) -> datetime | None:
    """Return Unix seconds as a local time with its zone, None if it is out of range."""
    try:
        return datetime.fromtimestamp(stamp).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
