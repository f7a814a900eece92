"""What all detectors of meaning need to know of a text, found out once."""

from __future__ import annotations

import re
from functools import cached_property

from .gazetteer import Gazetteer, fold
from .language import KNOWN, UNKNOWN, language_of
from .lexicon import Hit, Lexicon
from .setting import Setting, setting_of
from .words import tokens_of

_DIGITS = re.compile(r"\d+")


class Tables:
    """The gazetteer and the lexicons, read when they are first needed."""

    @cached_property
    def gazetteer(self) -> Gazetteer:
        """Names and ordinary words."""
        return Gazetteer.shipped()

    @cached_property
    def lexicons(self) -> dict[str, Lexicon]:
        """Words of topics, by language."""
        return {language: Lexicon.shipped(language) for language in KNOWN}

    @cached_property
    def strong_english(self) -> Lexicon:
        """The English words of topics with the highest weight."""
        return Lexicon.shipped("en", least=3)


class Reading:
    """A text, its words, and what they say of it; each answer is worked out when first asked.

    `words[n]` is the token with the number `places[n]`, from character `starts[n]` up to `ends[n]`;
    `small` has the words in small letters, `folded` without accents too.
    """

    def __init__(self, text: str, tables: Tables) -> None:
        self.text = text
        self.tokens, starts, ends = tokens_of(text)
        self.places = [at for at, token in enumerate(self.tokens) if token[0].isalpha()]
        self.words = [self.tokens[at] for at in self.places]
        self.starts = [starts[at] for at in self.places]
        self.ends = [ends[at] for at in self.places]
        self.small: list[str] = [word.casefold() for word in self.words]
        if "’" in text:
            self.small = [word.replace("’", "'") for word in self.small]
        self.folded = [word if word.isascii() else fold(word) for word in self.small]
        self._tables = tables

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words in small letters, each once."""
        return frozenset(self.small)

    @cached_property
    def numbers(self) -> list[tuple[int, int]]:
        """Where each run of digits stands."""
        return [match.span() for match in _DIGITS.finditer(self.text)]

    @cached_property
    def language(self) -> str:
        """See `language_of`."""
        return language_of(self.text, self.small)

    @cached_property
    def setting(self) -> Setting:
        """See `setting_of`."""
        return setting_of(self.text, self.small)

    @cached_property
    def flags(self) -> dict[int, int]:
        """What each capitalised word is used for, by its number among the words."""
        capital = [at for at, word in enumerate(self.words) if word[0].isupper()]
        found = self._tables.gazetteer.flags([self.folded[at] for at in capital])
        return dict(zip(capital, found, strict=True))

    @cached_property
    def hits(self) -> list[Hit]:
        """Words of topics in the text's language; English ones where that is not known."""
        language = "en" if self.language == UNKNOWN else self.language
        return self._tables.lexicons[language].hits(self.folded)

    @cached_property
    def strong_english_hits(self) -> list[Hit]:
        """English words of topics with the highest weight, whatever the language."""
        return self._tables.strong_english.hits(self.folded)


class Reader:
    """Reads texts for several detectors, which are asked about the same one after another."""

    def __init__(self) -> None:
        self.tables = Tables()
        self._last: Reading | None = None

    def read(self, text: str) -> Reading:
        """The reading of this text; the last one is remembered until `forget`."""
        last = self._last
        if last is None or last.text != text:
            last = self._last = Reading(text, self.tables)
        return last

    def forget(self) -> None:
        """Drop the last text."""
        self._last = None
