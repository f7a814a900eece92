"""Judges English passages with the first layers of a pretrained encoder, all-MiniLM-L6-v2.

Its files are made by `scripts/train-english`.
"""

# onnxruntime has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import gzip
import re
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from ...text_analysis.data_files import read_data_file, word_lists
from .onnx_session import open_session

NETWORK, TOKENS = "english.onnx", "english_tokens.json.gz"
"""Data files."""

LENGTH = 144
"""Tokens of a passage at most, those of its beginning and end included."""

_LEAST_COMMON, _LEAST_ASCII, _MOST_PIECES = 0.1, 0.9, 0.25
"""English passages have this share of words that are common only in English and of words in ASCII
at least, and this share of tokens that continue or are no word at most."""

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


class EnglishNetwork:
    """The network, loaded; may be used by several threads. Raises OSError without its files."""

    def __init__(self) -> None:
        self._session = open_session(NETWORK)
        self._tokens = Tokenizer.from_buffer(gzip.decompress(read_data_file(TOKENS)))
        self._common = frozenset(word_lists()["common only in English"])

    def is_english(self, text: str) -> bool:
        """Whether a passage is surely English; those of other languages are hardly ever."""
        words = [one.casefold().replace("’", "'") for one in _WORD.findall(text)]
        if sum(one in self._common for one in words) < max(1, _LEAST_COMMON * len(words)):
            return False
        if sum(map(str.isascii, words)) < _LEAST_ASCII * len(words):
            return False
        tokens = self._tokens.encode(_encodable(text), add_special_tokens=False).tokens
        pieces = sum(one.startswith("##") or one == "[UNK]" for one in tokens)
        return pieces <= _MOST_PIECES * len(tokens)

    def read(self, passage: str) -> float:
        """Return the log-odds that it is private."""
        # Alone: the scales of 8-bit activations depend on all that is read at once.
        ids = np.array([encoded(self._tokens, passage)], np.int64)
        found: Any = self._session.run(None, {"ids": ids, "mask": np.ones(ids.shape, np.bool_)})
        return float(found[0][0])


def encoded(tokens: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a passage, the last one that of its end."""
    ids = tokens.encode(_encodable(text)).ids
    return ids if len(ids) <= LENGTH else [*ids[: LENGTH - 1], ids[-1]]


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
