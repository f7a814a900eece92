"""Folds characters that look or read alike to one plain form."""

from __future__ import annotations

import functools
import re
import unicodedata

from .text_index import odd_letters

_MARKS = ((0x300, 0x36F), (0x1AB0, 0x1AFF), (0x20D0, 0x20FF), (0xFE00, 0xFE2F), (0xE0100, 0xE01EF))
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
_TAG_ROW = re.compile("[\U000e0001-\U000e007f]+")
_SIGNS = {
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "−": "-", "⁄": "/",
    "∕": "/", "。": ".", "｡": ".", "•": "·", "\u2028": "\n", "\u2029": "\n", "ー": "-", "∙": "·",
}  # fmt: skip
_LATIN_LOOKALIKES = dict(
    zip(
        "аеорсухіјѕԁһӏкмтвнґАВЕКМНОРСТХУІЈЅҮԚԜɡıοανρτυικΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲѵЗбО",
        "aeopcyxijsdhlkmtbhrABEKMHOPCTXYIJSYQWgioavptuikABEZHIKMNOPTYXcv36O",
        strict=True,
    )
)
_LOOKALIKES = frozenset(_LATIN_LOOKALIKES)
_LOOKALIKE = re.compile(f"[{''.join(_LOOKALIKES)}]")
_LOOKALIKE_TABLE = str.maketrans(_LATIN_LOOKALIKES)
_WORD = re.compile(r"\S+")


def folds(text: str) -> dict[str, str]:
    """Return the replacement of each character of the text that has a plainer form; "" for none.

    Compatibility forms (NFKC), invisible characters, marks on letters, digits of all scripts, and
    the many dashes, quotes and spaces.
    """
    return {letter: plain for letter in odd_letters(text) if (plain := _fold(letter)) != letter}


def hidden(text: str) -> list[tuple[int, int, str]]:
    """Return runs of invisible tag characters, which a model reads, with the words they encode."""
    if text.isascii():
        return []
    return [
        (match.start(), match.end(), f" {''.join(chr(ord(c) - 0xE0000) for c in match[0])} ")
        for match in _TAG_ROW.finditer(text)
    ]


def lookalikes(text: str) -> list[tuple[int, int, str]]:
    """Return words that mix Latin letters or digits with lookalikes, with their Latin form."""
    if text.isascii() or _LOOKALIKE.search(text) is None:
        return []
    found: list[tuple[int, int, str]] = []
    for word in _WORD.finditer(text):
        if _LOOKALIKES.isdisjoint(word[0]):
            continue
        if any(letter.isascii() and letter.isalnum() for letter in word[0]):
            found.append((word.start(), word.end(), word[0].translate(_LOOKALIKE_TABLE)))
    return found


@functools.lru_cache(maxsize=4096)
def _fold(letter: str) -> str:
    code = ord(letter)
    if letter in _SIGNS:
        return _SIGNS[letter]
    category = unicodedata.category(letter)
    if category in ("Cf", "Cc") or letter in _FILLERS:
        return ""
    if any(low <= code <= high for low, high in _MARKS):
        return ""
    if category == "Pd":
        return "-"
    if category == "Zs":
        return " "
    digit = unicodedata.digit(letter, None)
    return str(digit) if digit is not None else unicodedata.normalize("NFKC", letter)
