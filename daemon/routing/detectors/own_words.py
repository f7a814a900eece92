"""Detects the user's own private words and folders."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..text_analysis.text_index import Span, lowered, odd_letters
from .finding import FindingKind, SensitiveFinding

_PIECE = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[^\W\d_])(?=[A-Z][a-z])")
_BETWEEN = r"[\W_]{0,3}"
_PLAIN = {"ł": "l", "ø": "o", "đ": "d", "ı": "i"}
_VARIANTS = {
    "ä": "(?:a|ae)",
    "ö": "(?:o|oe)",
    "ü": "(?:u|ue)",
    "ß": "(?:ß|ss)",
    "ae": "(?:ae|a)",
    "oe": "(?:oe|o)",
    "ue": "(?:ue|u)",
    "ss": "(?:ss|ß)",
}
_UNIT = re.compile("|".join([*sorted(_VARIANTS, key=len, reverse=True), "."]))
_PLURAL = frozenset({"s"})
_LATIN_ENDINGS = (
    "s es e n en ns er ern a u y i o m em im om ou ow owi ami ach iem ie iej ej ego emu iego iemu"
)
_CYRILLIC_ENDINGS = "а у ы и е о я ю ой ою ом ем им ей ею ого ому ым ов ам ами ах"
_ENDINGS = frozenset(f"{_LATIN_ENDINGS} {_CYRILLIC_ENDINGS}".split())
_VOWELS = "aeoyаяоыйь"
_SHORTEST_PLURAL, _SHORTEST_INFLECTED = 3, 5  # letters


class OwnWords(msgspec.Struct, frozen=True):
    """Words and folders that must not leave."""

    words: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class OwnWordDetector:
    """Finds the user's words and paths below the user's folders.

    Words count in any case, with or without accents and hyphens, in compounds that show where they
    begin and end (`ProjectHeron`), and with common endings of inflection if they are long enough.
    """

    def __init__(self, owner: OwnWords) -> None:
        words = {" ".join(word.split()) for word in owner.words}
        self._words = [_OwnWord(word) for word in sorted(words) if _PIECE.search(word)]
        self._folders = [_folder_pattern(form) for form in _folder_forms(owner.folders)]

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """Yield the words, and paths below the folders."""
        plain = _folded(text) if self._words else ""
        for word in self._words:
            for start, end in set(word.spans(text, plain)):
                yield SensitiveFinding(FindingKind.OWN_WORD, start, end, word.value)
        for pattern in self._folders:
            for match in pattern.finditer(text):
                yield SensitiveFinding(FindingKind.OWN_FOLDER, *match.span(), match[0])


class _OwnWord:
    """One word or phrase of the user."""

    def __init__(self, word: str) -> None:
        self.value = word.lower()
        pieces = [one.lower() for part in _CAMEL.split(word) for one in _PIECE.findall(part)]
        last = pieces[-1]
        self._is_cased = any(letter.lower() != letter.upper() for letter in word)
        self._begin = _folded(pieces[0])[:1]
        inflected = len(last) >= _SHORTEST_INFLECTED and last.isalpha()
        endings = _ENDINGS if inflected else _PLURAL
        endings = endings if len(last) >= _SHORTEST_PLURAL and last.isalpha() else frozenset[str]()
        self._forms = [(_pattern(pieces), endings | {""})]
        if inflected and _folded(last)[-1] in _VOWELS:
            # Kowalska, Kowalskiej: the last vowel changes.
            self._forms.append((_pattern([*pieces[:-1], last[:-1]]), endings))

    def spans(self, text: str, plain: str) -> Iterator[Span]:
        """Yield the places in a text, of which `plain` is the folded form."""
        if self._begin not in plain:
            return
        for pattern, endings in self._forms:
            for match in pattern.finditer(plain):
                start, end = match.span()
                if not self._is_cased:  # scripts without spaces have no visible boundary
                    yield start, end
                    continue
                stop = _end_of_word(text, end)
                if _begins_word(text, start) and plain[end:stop] in endings:
                    yield start, stop


def _pattern(pieces: list[str]) -> re.Pattern[str]:
    """Return a pattern for folded text; a long word may have a hyphen within."""
    patterns: list[str] = []
    for piece in pieces:
        units = [_VARIANTS.get(unit, re.escape(_folded(unit))) for unit in _UNIT.findall(piece)]
        hyphen = "-?" if len(piece) > _SHORTEST_INFLECTED else ""
        patterns.append("".join(units[:2]) + "".join(hyphen + unit for unit in units[2:]))
    return re.compile(_BETWEEN.join(patterns))


def _folded(text: str) -> str:
    """Return the text in lower case without accents, every character in its place."""
    lower = lowered(text)
    return lower.translate({ord(odd): _without_accent(odd) for odd in odd_letters(lower)})


def _without_accent(letter: str) -> str:
    base, *marks = unicodedata.normalize("NFKD", letter)
    accented = bool(marks) and all(map(unicodedata.combining, marks))
    return base if accented else _PLAIN.get(letter, letter)


def _begins_word(text: str, start: int) -> bool:
    if start == 0 or not text[start - 1].isalnum():
        return True
    return text[start].isupper() and text[start - 1].islower()


def _end_of_word(text: str, end: int) -> int:
    """Return the end of the letters that go on there, up to the next part of a compound."""
    if end < len(text) and text[end].isdigit() and text[end - 1].isdigit():
        return end + 1  # another number
    while end < len(text) and text[end].isalpha():
        if text[end].isupper() and text[end - 1].islower():
            break
        end += 1
    return end


def _folder_forms(folders: tuple[str, ...]) -> list[str]:
    """Return each folder in its spellings: in full, and relative to the home folder."""
    home = str(Path.home())
    forms: set[str] = set()
    for folder in folders:
        full = str(Path(folder).expanduser()).rstrip("/\\")
        if not full:
            continue
        forms.add(full)
        if full.startswith(home + "/"):
            forms.update(mark + full[len(home) :] for mark in ("~", "$HOME", "${HOME}"))
    return sorted(forms)


def _folder_pattern(folder: str) -> re.Pattern[str]:
    return re.compile(
        r"(?<![\w/])" + re.escape(folder) + r"(?:[/\\][^\s\"'`<>|;,)]{0,400}+|(?![\w.-]))"
    )
