"""Fuzzy matching of what was typed against names."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable
from functools import lru_cache

_BOUNDARY = frozenset("/_-. ")


def rank(query: str, names: Iterable[str], limit: int) -> list[str]:
    """The names that contain the letters of `query` in their order, the best first.

    Letters that follow one another, begin words or stand in the last part of a path count more;
    a capital in the query must be one in the name. Shorter names win.
    """
    if not query:
        return heapq.nsmallest(limit, names, key=lambda name: (name.count("/"), len(name), name))
    pattern = _pattern(query)
    scored = ((score(query, name), name) for name in names if pattern.search(name))
    best = heapq.nlargest(limit, scored, key=lambda item: (item[0], -len(item[1])))
    return [name for _, name in best]


@lru_cache(maxsize=8)
def _pattern(query: str) -> re.Pattern[str]:
    letters = (f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in query)
    return re.compile("".join(letters), 0 if _cased(query) else re.IGNORECASE)


def _cased(query: str) -> bool:
    return query != query.lower()


def score(query: str, name: str) -> float:
    """How well `query` fits a name that contains its letters in order; higher is better."""
    if not _cased(query):
        name = name.lower()
    last = name.rstrip("/").rfind("/") + 1
    whole = name.find(query, last)
    if whole < 0:
        whole = name.rfind(query)
    if whole >= 0:
        points = 3.0 * len(query) + 2.0 * (whole >= last) + 2.0 * _begins_word(name, whole)
        points += 3.0 * (whole == last)
        return points - len(name) / 200
    return _scattered(query, name, last) - len(name) / 200


def _scattered(query: str, name: str, last: int) -> float:
    """Points for letters apart from one another, looked for in the last part first."""
    at = last - 1 if _fits(query, name, last) else -1
    points = 1.0 if at >= 0 else 0.0
    for letter in query:
        previous, at = at, name.find(letter, at + 1)
        if at < 0:
            return 0.0
        points += 2.0 if at == previous + 1 else (1.5 if _begins_word(name, at) else 0.5)
    return points


def _fits(query: str, name: str, start: int) -> bool:
    for letter in query:
        start = name.find(letter, start) + 1
        if not start:
            return False
    return True


def _begins_word(name: str, at: int) -> bool:
    return at == 0 or name[at - 1] in _BOUNDARY
