"""Linguistic annotations of a text, computed once for all detectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from .gazetteer import shipped_gazetteer
from .language_detection import UNKNOWN, language_of
from .text_genre import TextGenre, classify_genre
from .topic_lexicon import Lexicon, LexiconMatch
from .word_table import Known, WordTable, WordTableColumn, matching, tokens_of

_DIGITS = re.compile(r"\d+")
_MOST_WORDS = 16_384  # cached words: some five megabytes
_IS_WORD = matching(lambda word: word[0].isalpha())
_IS_CAPITALISED = matching(lambda word: word[0].isalpha() and word[0].isupper())


_USES = WordTableColumn(np.uint8, lambda words: shipped_gazetteer().flags(words))
"""Uses of each word, as in `Gazetteer.flags`."""
_STRONG = 3  # weight of the least ambiguous topic words


class AnnotatedText:
    """A text, its words and their annotations, each computed on first use.

    `words[n]` is the token with the number `places[n]`, from character `starts[n]` up to `ends[n]`;
    `small` has the words in lower case, `folded` without accents too. `numbers` has the tokens'
    numbers in the `table` of words. `lexicon` returns a language's topic words from a weight on.
    """

    def __init__(self, text: str, table: WordTable, lexicon: Callable[[str, int], Lexicon]) -> None:
        self.text = text
        tokens, starts, ends = tokens_of(text)
        self.table, self._lexicon = table, lexicon
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
        """Return the column's value for each of the words."""
        return self.table.column(column)[self._of_words]

    def where(self, column: WordTableColumn[np.bool_]) -> list[int]:
        """Return the indexes of the words for which the column is true."""
        return np.flatnonzero(self.known(column)).tolist()

    def has(self, column: WordTableColumn[np.bool_]) -> bool:
        """Whether the column is true for any word."""
        return bool(self.known(column).any())

    @cached_property
    def digits(self) -> list[tuple[int, int]]:
        """The span of each run of digits."""
        return [match.span() for match in _DIGITS.finditer(self.text)]

    @cached_property
    def language(self) -> str:
        """The language, see `language_of`."""
        return language_of(self.text, self.small)

    @cached_property
    def setting(self) -> TextGenre:
        """The genre, see `classify_genre`."""
        return classify_genre(self.text, self.small, self.where)

    @cached_property
    def flags(self) -> dict[int, int]:
        """The uses of each capitalised word, by its index among the words."""
        capital = np.flatnonzero(self.known(_IS_CAPITALISED))
        return dict(zip(capital.tolist(), self.known(_USES)[capital].tolist(), strict=True))

    @cached_property
    def hits(self) -> list[LexiconMatch]:
        """Topic words in the text's language; English ones if that is unknown."""
        return self._hits("en" if self.language == UNKNOWN else self.language, 0)

    @cached_property
    def strong_english_hits(self) -> list[LexiconMatch]:
        """English topic words with the highest weight, whatever the language."""
        return self._hits("en", _STRONG)

    def _hits(self, language: str, least: int) -> list[LexiconMatch]:
        lexicon = self._lexicon(language, least)
        return lexicon.hits(self.folded, self.known(lexicon.entries).tolist())


class TextAnnotator:
    """Annotates texts for several detectors, which get the same text one after another."""

    def __init__(self) -> None:
        # Not shared by all annotators: filling a lexicon's column is safe in one table only.
        self._lexicon = cache(Lexicon.shipped)
        self._last: AnnotatedText | None = None
        self._table = WordTable()

    def read(self, text: str) -> AnnotatedText:
        """Return the annotations of this text; the last one is cached."""
        last = self._last
        if last is None or last.text != text:
            if len(self._table) > _MOST_WORDS:
                self._table = WordTable()
            last = self._last = AnnotatedText(text, self._table, self._lexicon)
        return last
