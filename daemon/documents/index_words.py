"""Words of texts and questions as the index of words knows them."""

from __future__ import annotations

import re

MOST_WORDS = 64
"""Of a question."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Scripts without spaces between words: each character is a word there.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
)
_WORD = re.compile(r"\w+")
_SPLIT = re.compile(r"[\W_]+")
_COMMON = (
    " a an and are as at be by can do does for from has have how i in is it its me my of on or "
    "that the there this to was we what when where which who why will with you your "
)


def separated(text: str) -> str:
    """Return the text with spaces between words that are written as one."""
    return _UNSPACED.sub(r" \1 ", _CAMEL.sub(" ", text))


def match_expression(question: str) -> str:
    """Return FTS5's expression for any of a question's words; "" if it has none.

    A word of several parts, such as `keep_alive`, also counts as a phrase.
    """
    terms: dict[str, None] = {}
    for word in _WORD.findall(question):
        parts = [part.lower() for part in _SPLIT.split(separated(word)) if part]
        if len(parts) > 1:
            terms[" ".join(parts)] = None
        terms.update(dict.fromkeys(part for part in parts if f" {part} " not in _COMMON))
    # Only letters and digits are left, and quoted they are no operators.
    return " OR ".join(f'"{term}"' for term in list(terms)[:MOST_WORDS])
