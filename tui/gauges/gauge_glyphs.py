"""The gauges' signs, and ASCII replacements for plain terminals."""

from __future__ import annotations

from collections.abc import Mapping

_PLAIN = str.maketrans(
    {
        **dict(zip("◆█▲▒·", "#@u+.", strict=True)),
        **dict(zip("▓┈●≡─┊┆╌░", "%-*=-|:~,", strict=True)),
        **dict(zip("▁▂▃▄▅▆▇", "_..--==", strict=True)),
        **dict(zip("×≈⌂○↓–", "x~^o!-", strict=True)),
    }
)
_PLAIN_TERMINALS = ("linux", "dumb", "vt100", "vt102", "vt220")

SPARKS = "▁▂▃▄▅▆▇█"


def ascii_only(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal, by its name and locale, supports only ASCII."""
    if environment.get("TERM", "") in _PLAIN_TERMINALS:
        return True
    locale = next(
        (environment[n] for n in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(n)), ""
    )
    # A missing locale is common in containers and means nothing; "C.UTF-8" means support.
    return bool(locale) and locale not in ("C", "POSIX") and "utf" not in locale.lower()


def plain(text: str) -> str:
    """Return the text with every gauge sign replaced by one ASCII character."""
    return text.translate(_PLAIN)
