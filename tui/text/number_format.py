"""Formats numbers for display."""

from __future__ import annotations


def tokens(count: int) -> str:
    """Format a count with separated thousands."""
    return f"{count:,}".replace(",", " ")


def counted(count: int, word: str) -> str:
    """Format a count of something, with an `s` unless it is one: `1 token`, `17 203 tokens`."""
    return f"{tokens(count)} {word}{'' if count == 1 else 's'}"


def size(count: float) -> str:
    """Format bytes in the unit that fits, decimal as for disks."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            places = 0 if unit in ("B", "kB") or count >= 10 else 1
            return f"{count:.{places}f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def parameters(count: int) -> str:
    """Format a number of weights as in model names: `135 M`, `1.8 B`."""
    if count < 1_000_000_000:
        return f"{count / 1e6:.0f} M"
    return f"{count / 1e9:.1f} B" if count < 10_000_000_000 else f"{count / 1e9:.0f} B"


def duration(seconds: float) -> str:
    """Format seconds, coarser for longer durations."""
    if seconds < 10:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def remaining(seconds: float) -> str:
    """Format an estimate of the time left, never finer than a second."""
    return duration(seconds) if seconds >= 10 else f"{max(1, round(seconds))} s"


def speed(rate: float) -> str:
    """Format tokens per second."""
    return f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s"


def percent(fraction: float) -> str:
    """Format a fraction as a whole percentage."""
    return f"{fraction * 100:.0f} %"


def prefill(new: int, computed: int = 0) -> str:
    """Format a prefill of `new` tokens, and the share of them that is done once some are."""
    done = f", {percent(computed / new)}" if computed > 0 else ""
    return f"prefill of {counted(new, 'token')}{done}"


def bar(fraction: float, width: int) -> tuple[str, str]:
    """Return the full and the empty part of a bar of `width` cells; above 0 at least one is
    full.
    """
    fraction = min(1.0, max(0.0, fraction))
    full = round(fraction * width)
    if fraction > 0:
        full = max(1, full)
    return "━" * full, "─" * (width - full)
