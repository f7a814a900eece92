"""The signs the gauges are drawn with, and their twins for terminals that only know ASCII."""

from __future__ import annotations

from collections.abc import Mapping

_PLAIN = str.maketrans(
    {
        **dict(zip("◆█▲▒·", "#@u+.", strict=True)),
        **dict(zip("▓┈●≡─┊┆╌", "%-*=-|:~", strict=True)),
        **dict(zip("▁▂▃▄▅▆▇", "_..--==", strict=True)),
        **dict(zip("×≈⌂○↓–", "x~^o!-", strict=True)),
    }
)
_PLAIN_TERMINALS = ("linux", "dumb", "vt100", "vt102", "vt220")

SPARKS = "▁▂▃▄▅▆▇█"


def ascii_only(environment: Mapping[str, str]) -> bool:
    """Whether the terminal, by its name and its locale, cannot be trusted with more than ASCII."""
    if environment.get("TERM", "") in _PLAIN_TERMINALS:
        return True
    locale = next(
        (environment[n] for n in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(n)), ""
    )
    # No locale at all is common in containers and says nothing; "C.UTF-8" says yes.
    return bool(locale) and locale not in ("C", "POSIX") and "utf" not in locale.lower()


def plain(text: str) -> str:
    """The text with every sign of the gauges as one ASCII character."""
    return text.translate(_PLAIN)
