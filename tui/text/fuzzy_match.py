"""Fuzzy matching of typed text against names."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable
from functools import lru_cache

MAX_SCORED = 2_000
"""Names that are scored: of a large folder's 50 000, the shortest of those that fit."""
_BOUNDARY = frozenset("/_-. ")


def rank(query: str, names: Iterable[str], limit: int) -> list[str]:
    """Return the names that contain the letters of `query` in order, best first.

    Consecutive letters, word beginnings and the last part of a path count more; capitals in the
    query must match. Shorter names win.
    """
    if not query:
        return heapq.nsmallest(limit, names, key=lambda name: (name.count("/"), len(name), name))
    fitting = _fitting(query, list(names), limit)
    if len(fitting) > MAX_SCORED:
        fitting = heapq.nsmallest(MAX_SCORED, fitting, key=len)
    scored = ((score(query, name), name) for name in fitting)
    best = heapq.nlargest(limit, scored, key=lambda item: (item[0], -len(item[1])))
    return [name for _, name in best]


def _fitting(query: str, names: list[str], limit: int) -> list[str]:
    """Return names with the query in one piece and, if these are few, with scattered letters."""
    folded = names if _cased(query) else [name.lower() for name in names]
    found = [name for name, key in zip(names, folded, strict=True) if query in key]
    if len(found) < limit:
        fits = _pattern(query).match
        found += [
            name
            for name, key in zip(names, folded, strict=True)
            if fits(key) is not None and query not in key
        ]
    return found


@lru_cache(maxsize=8)
def _pattern(query: str) -> re.Pattern[str]:
    letters = (f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in query)
    return re.compile("".join(letters))


def _cased(query: str) -> bool:
    return query != query.lower()


def score(query: str, name: str) -> float:
    """Return how well `query` fits a name that contains its letters in order; higher is better."""
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
    """Return the score of scattered letters, searched in the last part first."""
    at = last - 1 if _pattern(query).match(name, last) else -1
    points = 1.0 if at >= 0 else 0.0
    for letter in query:
        previous, at = at, name.find(letter, at + 1)
        if at < 0:
            return 0.0
        points += 2.0 if at == previous + 1 else (1.5 if _begins_word(name, at) else 0.5)
    return points


def _begins_word(name: str, at: int) -> bool:
    return at == 0 or name[at - 1] in _BOUNDARY
