"""Extracts the part of a message around the search hits."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from ..text.terminal_safe_text import clean
from .database.index_text import is_unspaced
from .search_query import Term

_LOOKED_AT = 200_000
_BEFORE = 0.3
"""The share of a snippet before the first hit."""


class _Folding(dict[int, str]):
    """Maps a character to lower case without diacritics; filled on demand."""

    def __missing__(self, code: int) -> str:
        base = unicodedata.normalize("NFKD", chr(code))[:1].lower()
        self[code] = folded = base if len(base) == 1 else chr(code)
        return folded


@dataclass(frozen=True, slots=True)
class Snippet:
    """One line of text, and the spans of its hits."""

    text: str
    hits: tuple[tuple[int, int], ...]


class SnippetMaker:
    """Finds the words of one query as the index does: ignoring case and diacritics."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._folding = _Folding()
        patterns = [pattern for term in terms if (pattern := self._pattern(term))]
        self._hit = re.compile("|".join(patterns)) if patterns else None

    def make(self, text: str, width: int = 240) -> Snippet:
        """Return `width` characters around the first hit, on one line, safe to show."""
        text = clean(text[:_LOOKED_AT])
        start = 0
        if self._hit is not None:
            first = self._hit.search(self._fold(text))
            if first is not None:
                start = max(0, first.start() - int(width * _BEFORE))
        end = start + 2 * width
        shown = " ".join(text[start:end].split())
        if start:
            # Start at the beginning of a word, if one is near.
            space = shown.find(" ", 0, 20)
            shown = "…" + shown[space + 1 :]
        if len(shown) > width or end < len(text):
            shown = shown[: width - 1].rstrip() + "…"
        return Snippet(shown, self.hits(shown))

    def hits(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the spans of the words in `text`."""
        if self._hit is None:
            return ()
        return tuple(match.span() for match in self._hit.finditer(self._fold(text)))

    def matches_all(self, text: str, terms: Sequence[Term]) -> bool:
        """Return whether each term occurs in `text`."""
        folded = self._fold(text)
        patterns = [pattern for term in terms if (pattern := self._pattern(term))]
        return bool(patterns) and all(re.search(pattern, folded) for pattern in patterns)

    def _fold(self, text: str) -> str:
        return text.lower() if text.isascii() else text.translate(self._folding)

    def _pattern(self, term: Term) -> str:
        words = re.findall(r"[^\W_]+", self._fold(term.text))
        if not words:
            return ""
        before = "" if is_unspaced(words[0][0]) else r"(?<![^\W_])"
        after = "" if term.is_prefix or is_unspaced(words[-1][-1]) else r"(?![^\W_])"
        rest = r"[^\W_]*" if term.is_prefix and not is_unspaced(words[-1][-1]) else ""
        return before + r"[\W_]+".join(map(re.escape, words)) + after + rest
