"""Detects the language of a text, as far as the detectors depend on it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ...text_analysis.data_files import word_lists

KNOWN = ("en", "de", "fr", "es")
UNKNOWN = "unknown"

# Function words of the languages that the detectors support, and of some others.
_SMALL_WORDS = {
    name.removeprefix("language: "): frozenset(words)
    for name, words in word_lists().items()
    if name.startswith("language: ")
}
# Single letters are words of too many languages.
_LANGUAGES_OF = {
    word: tuple(name for name, small in _SMALL_WORDS.items() if word in small)
    for word in frozenset[str]().union(*_SMALL_WORDS.values())
    if len(word) > 1
}
_FOREIGN = re.compile(r"[^\W\d_\u0000-\u024f]{2,}")
# Letters of other scripts, or marks that make such letters of Latin ones.
_MAY_BE_FOREIGN = re.compile(r"[^\u0000-\u024f‐-‧€™]")
_ENOUGH_FOREIGN = 8
_WORDS_LOOKED_AT = 150
_ENOUGH_WORDS = 12


def language_of(text: str, words: Sequence[str]) -> str:
    """Return one of `KNOWN`, or `UNKNOWN` if a large part is in another language or script.

    `words` are the text's, in lower case. A text too short to tell counts as English.
    """
    foreign = 0
    if _MAY_BE_FOREIGN.search(text):
        foreign = sum(map(len, _FOREIGN.findall(unicodedata.normalize("NFC", text[:8000]))))
    letters = sum(map(len, words))
    if foreign >= _ENOUGH_FOREIGN and foreign * 10 > letters:
        return UNKNOWN
    hits = dict.fromkeys(_SMALL_WORDS, 0)
    distinct = {*words[:_WORDS_LOOKED_AT], *words[_WORDS_LOOKED_AT:][-_WORDS_LOOKED_AT:]}
    for word in distinct & _LANGUAGES_OF.keys():
        for language in _LANGUAGES_OF[word]:
            hits[language] += 1
    best = max(hits, key=lambda language: (hits[language], language in KNOWN))
    known = max(KNOWN, key=lambda language: hits[language])
    if best not in KNOWN and hits[best] >= 3 and hits[best] > hits[known] + 1:
        return UNKNOWN
    if hits[known] == 0:
        return "en" if len(distinct) < _ENOUGH_WORDS else UNKNOWN
    return known
