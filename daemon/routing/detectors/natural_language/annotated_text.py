"""What all detectors of meaning need to know of a text, found out once."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .gazetteer import Gazetteer
from .language_detection import KNOWN, UNKNOWN, language_of
from .text_genre import TextGenre, classify_genre
from .topic_lexicon import Lexicon, LexiconMatch
from .word_table import Known, WordTable, WordTableColumn, matching
from .word_tokens import tokens_of

_DIGITS = re.compile(r"\d+")
_MOST_WORDS = 16_384  # that are remembered: some five megabytes
_IS_WORD = matching(lambda word: word[0].isalpha())
_IS_CAPITALISED = matching(lambda word: word[0].isalpha() and word[0].isupper())


class AnnotationTables:
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

    @cached_property
    def uses(self) -> WordTableColumn[np.uint8]:
        """What each word is used for, as `Gazetteer.flags` says."""
        return WordTableColumn(np.uint8, lambda words, small, folded: self.gazetteer.flags(folded))


class AnnotatedText:
    """A text, its words, and what they say of it; each answer is worked out when first asked.

    `words[n]` is the token with the number `places[n]`, from character `starts[n]` up to `ends[n]`;
    `small` has the words in small letters, `folded` without accents too. `numbers` has the tokens'
    numbers in the `table` of words.
    """

    def __init__(self, text: str, tables: AnnotationTables, table: WordTable) -> None:
        self.text = text
        tokens, starts, ends = tokens_of(text)
        self.table, self._tables = table, tables
        self.numbers = table.number(tokens)
        self.places = np.flatnonzero(table.column(_IS_WORD)[self.numbers])
        self._of_words = self.numbers[self.places]
        self.starts: list[int] = starts[self.places].tolist()
        self.ends: list[int] = ends[self.places].tolist()
        numbers: list[int] = self._of_words.tolist()
        self.words = list(map(table.words.__getitem__, numbers))
        self.small = list(map(table.small.__getitem__, numbers))
        self.folded = list(map(table.folded.__getitem__, numbers))

    def known(self, column: WordTableColumn[Known]) -> NDArray[Known]:
        """What is known of each of the words."""
        return self.table.column(column)[self._of_words]

    def where(self, column: WordTableColumn[np.bool_]) -> list[int]:
        """The numbers of the words of which this is known."""
        return np.flatnonzero(self.known(column)).tolist()

    def has(self, column: WordTableColumn[np.bool_]) -> bool:
        """Whether this is known of any word."""
        return bool(self.known(column).any())

    @cached_property
    def digits(self) -> list[tuple[int, int]]:
        """Where each run of digits stands."""
        return [match.span() for match in _DIGITS.finditer(self.text)]

    @cached_property
    def language(self) -> str:
        """See `language_of`."""
        return language_of(self.text, self.small)

    @cached_property
    def setting(self) -> TextGenre:
        """See `classify_genre`."""
        return classify_genre(self.text, self.small, self.where)

    @cached_property
    def flags(self) -> dict[int, int]:
        """What each capitalised word is used for, by its number among the words."""
        capital = np.flatnonzero(self.known(_IS_CAPITALISED))
        return dict(
            zip(capital.tolist(), self.known(self._tables.uses)[capital].tolist(), strict=True)
        )

    @cached_property
    def hits(self) -> list[LexiconMatch]:
        """Words of topics in the text's language; English ones where that is not known."""
        language = "en" if self.language == UNKNOWN else self.language
        return self._hits(self._tables.lexicons[language])

    @cached_property
    def strong_english_hits(self) -> list[LexiconMatch]:
        """English words of topics with the highest weight, whatever the language."""
        return self._hits(self._tables.strong_english)

    def _hits(self, lexicon: Lexicon) -> list[LexiconMatch]:
        return lexicon.hits(self.folded, self.known(lexicon.entries).tolist())


class TextAnnotator:
    """Reads texts for several detectors, which are asked about the same one after another."""

    def __init__(self) -> None:
        self.tables = AnnotationTables()
        self._last: AnnotatedText | None = None
        self._table = WordTable()

    def read(self, text: str) -> AnnotatedText:
        """The reading of this text; the last one is remembered until `forget`."""
        last = self._last
        if last is None or last.text != text:
            if len(self._table) > _MOST_WORDS:
                self._table = WordTable()
            last = self._last = AnnotatedText(text, self.tables, self._table)
        return last

    def forget(self) -> None:
        """Drop the last text and all words."""
        self._last = None
        self._table = WordTable()
