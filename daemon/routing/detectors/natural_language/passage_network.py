"""Scores the passages of a text, and tags names and numbers in them, by two small networks.

The second one reads only passages of which the first is not certain that they are public. They are
made by `scripts/train-judge` and `bench/privacy/join_networks.py`. In short English texts a third
one, `english_network`, corrects them where they are unsure.
"""

# onnxruntime has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ...text_analysis.data_files import read_data_file
from .english_network import EnglishNetwork
from .onnx_session import open_session

NETWORK, SECOND = "passages.onnx", "passages_second.onnx"
TOKENS = "passage_tokens.json.gz"
"""Data files."""

KINDS = (
    *("health", "sexuality", "religion", "money", "law", "family", "work", "immigration"),
    *("personal", "business", "secret"),
)
"""What a private passage is about."""

TAGS = ("", "person", "address", "organisation", "number", "secret", "birth date")
"""What a token is part of."""

LENGTH, STEP = 128, 112
"""Tokens of a passage, and from the beginning of one to that of the next."""

_BATCH = 32
_CERTAIN = 0.047
"""Below this probability of the first network (log-odds of -3) the second is not asked: no verdict
of 9,725 texts depended on it.
"""
_UNSURE, _SHORT = 3.0, 3
"""Log-odds between the first and its opposite are corrected in English passages, of texts that have
no more passages than the second."""

_SHARE, _BIAS, _LOWER_BY, _RAISE_BY = 0.4, 1.2, 2.0, 0.6
"""How a third network corrects them: by this share of the difference between both and the second
figure, but no more than the others. Chosen by sets whose texts are not learnt from."""

_EDGES = " \n\t.,;:!?()\"“”„'"
_IDEOGRAPHS = "\u2e80"
"""From here on scripts have no blanks between words."""


class TaggedSpan(msgspec.Struct, frozen=True):
    """Neighbouring tokens of one tag, by characters of the text, with their mean probability."""

    tag: str
    start: int
    end: int
    probability: float


class Passage(msgspec.Struct, frozen=True):
    """Up to `LENGTH` tokens of a text, by characters: how likely they are private, and which kind
    that would be.
    """

    start: int
    end: int
    private: float
    kind: str
    kind_probability: float
    spans: tuple[TaggedSpan, ...]


class PassageNetwork:
    """The networks, loaded; may be used by several threads. Raises OSError without their files."""

    def __init__(self) -> None:
        self._first, self._second = open_session(NETWORK), open_session(SECOND)
        self._english = EnglishNetwork()
        self._tokens = Tokenizer.from_buffer(gzip.decompress(read_data_file(TOKENS)))

    def read(self, text: str) -> list[Passage]:
        """Return the passages of a text, in order; neighbours overlap."""
        # Lone surrogates cannot be encoded; one sign for one keeps the offsets.
        encoded = self._tokens.encode(text.encode("utf-8", "replace").decode())
        ids, offsets = encoded.ids, encoded.offsets
        starts = range(0, max(1, len(ids) - LENGTH + STEP), STEP)
        found: list[Passage] = []
        for first in range(0, len(starts), _BATCH):
            part = starts[first : first + _BATCH]
            rows = [ids[start : start + LENGTH] for start in part]
            private, kinds, tags = self._run(rows)
            if len(starts) <= _SHORT:
                pieces = [offsets[start : start + LENGTH] for start in part]
                self._correct(
                    private, [text[one[0][0] : one[-1][1]] if one else "" for one in pieces]
                )
            for number, start in enumerate(part):
                count = len(rows[number])
                if not count:
                    continue
                kind = int(kinds[number].argmax())
                where = offsets[start : start + count]
                found.append(
                    Passage(
                        where[0][0],
                        where[-1][1],
                        float(private[number]),
                        KINDS[kind],
                        float(kinds[number][kind]),
                        tuple(_spans(text, where, tags[number, :count])),
                    )
                )
        return found

    def _run(self, rows: Sequence[list[int]]) -> tuple[NDArray[np.float32], ...]:
        longest = max(1, *map(len, rows))
        ids = np.zeros((len(rows), longest), np.int64)
        mask = np.zeros((len(rows), longest), np.bool_)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = row
            mask[number, : len(row)] = True
        mask[:, 0] = True  # of an empty text
        found: Any = self._first.run(None, {"ids": ids, "mask": mask})
        private, kinds, tags, vectors = found
        unsure = private > _CERTAIN
        if unsure.any():
            (second,) = self._second.run(None, {"vectors": vectors[unsure], "mask": mask[unsure]})
            first = np.clip(private[unsure], 1e-6, 1 - 1e-6)
            odds = (np.log(first / (1 - first)) + second) / 2
            private = private.copy()
            private[unsure] = 1 / (1 + np.exp(-odds))
        return private, kinds, tags

    def _correct(self, private: NDArray[np.float32], passages: Sequence[str]) -> None:
        """Change the probabilities of English passages that are not sure."""
        limited = np.clip(private, 1e-6, 1 - 1e-6)
        odds = np.log(limited / (1 - limited))
        asked = [
            number
            for number, passage in enumerate(passages)
            if abs(odds[number]) < _UNSURE and self._english.is_english(passage)
        ]
        if not asked:
            return
        others = np.array([self._english.read(passages[number]) for number in asked])
        changes = _SHARE * (others - odds[asked]) + _BIAS
        corrected = odds[asked] + np.clip(changes, -_LOWER_BY, _RAISE_BY)
        private[asked] = 1 / (1 + np.exp(-corrected))


def _spans(
    text: str, offsets: Sequence[tuple[int, int]], tags: NDArray[np.float32]
) -> Iterator[TaggedSpan]:
    """Yield neighbouring words of one tag; the tokens of a word decide together."""
    firsts = [0]
    firsts += (at for at in range(1, len(offsets)) if not _is_joined(text, offsets[at][0]))
    sums = np.add.reduceat(tags, firsts, axis=0)
    counts = np.diff([*firsts, len(offsets)])
    words = sums / counts[:, None]
    best = words.argmax(axis=1)
    at = 0
    while at < len(best):
        end = at + 1
        while end < len(best) and best[end] == best[at]:
            end += 1
        if best[at]:
            last = firsts[end] - 1 if end < len(firsts) else len(offsets) - 1
            start, stop = offsets[firsts[at]][0], offsets[last][1]
            piece = text[start:stop]
            start += len(piece) - len(piece.lstrip(_EDGES))
            stop -= len(piece) - len(piece.rstrip(_EDGES))
            if start < stop:
                sure = float(words[at:end, best[at]].mean())
                yield TaggedSpan(TAGS[int(best[at])], start, stop, sure)
        at = end


def _is_joined(text: str, at: int) -> bool:
    """Whether a token that begins here goes on with the word before it."""
    before, here = text[at - 1 : at], text[at : at + 1]
    return all(one < _IDEOGRAPHS and (one.isalnum() or one in "-_'") for one in (before, here))
