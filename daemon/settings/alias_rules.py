"""Rules for aliases, kept apart so that the settings import little."""

from __future__ import annotations

from collections.abc import Iterable

LATEST_TAG = ":latest"
"""The tag that Ollama's clients append to a name without one."""
_LONGEST = 4096


def is_pattern(alias: str) -> bool:
    """Whether an alias has wildcards; brackets are not wildcards, since clients use them in
    names.
    """
    return "*" in alias or "?" in alias


def find_cycle(aliases: Iterable[tuple[str, str]]) -> list[str] | None:
    """Return the names of an alias cycle, the first one repeated at its end; None if there is none.

    >>> find_cycle([("a", "b"), ("b", "A")]) ['a', 'b', 'a']
    """
    exact = {
        normal_name(alias): normal_name(target)
        for alias, target in aliases
        if not is_pattern(alias)
    }
    for start in exact:
        path = [start]
        while (following := exact.get(path[-1])) is not None:
            if following in path:
                return [*path[path.index(following) :], following]
            path.append(following)
    return None


def normal_name(name: str) -> str:
    """Return the name as tables store it: in lower case, without the default tag."""
    if len(name) > _LONGEST:
        return name  # no table has it
    return name.strip().lower().removesuffix(LATEST_TAG)
