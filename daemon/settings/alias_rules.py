"""What an alias may be, for the settings, which load no more than they need."""

from __future__ import annotations

from collections.abc import Iterable

LATEST_TAG = ":latest"
"""What Ollama's clients put behind a name without a tag."""


def is_pattern(alias: str) -> bool:
    """Whether an alias has wildcards; brackets are none, since clients use them in names."""
    return "*" in alias or "?" in alias


def find_cycle(aliases: Iterable[tuple[str, str]]) -> list[str] | None:
    """The names of a circle of aliases, the first one again at its end; None where there is none.

    >>> find_cycle([("a", "b"), ("b", "A")])
    ['a', 'b', 'a']
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
    """The name as tables hold it: in lower case, without the tag that means no tag."""
    return name.strip().lower().removesuffix(LATEST_TAG)
