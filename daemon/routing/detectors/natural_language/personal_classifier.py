"""A small linear classifier for texts about a person's own life or work."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...text_analysis.data_files import read_data_file
from ..finding import FindingKind, SensitiveFinding
from .annotated_text import TextAnnotator
from .classifier_features import BITS, features_of, features_of_whole
from .language_detection import UNKNOWN

_HEADER = struct.Struct("<8sffff")
_MAGIC = b"INGLEPC1"
_ODDS = math.log(2)
_EXERCISE = 2.5  # people in word problems have children and debts, too
_PASSAGES = (28, 84)  # tokens: one or two sentences, and a few


def best_passage(weights: NDArray[np.float32]) -> tuple[float, int, int]:
    """Return the highest score of a passage of tokens with these weights, its start and its end."""
    sums = np.concatenate(([0.0], np.cumsum(weights)))
    best = -math.inf, 0, 0
    for length in _PASSAGES:
        starts = np.arange(0, max(1, len(weights) - length // 2), length // 2)
        ends = np.minimum(starts + length, len(weights))
        scores = (sums[ends] - sums[starts]) / np.sqrt(ends - starts)
        at = int(scores.argmax())
        best = max(best, (float(scores[at]), int(starts[at]), int(ends[at])))
    return best


class LinearWeights:
    """Weights by hash, as bytes; written by `bench/privacy/train_classifier.py`."""

    def __init__(self, table: bytes) -> None:
        magic, scale, self.bias, self.slope, self.shift = _HEADER.unpack_from(table)
        if magic != _MAGIC or len(table) != _HEADER.size + (1 << BITS):
            raise ValueError("not the classifier's weights")
        self.table = np.frombuffer(table, "i1", offset=_HEADER.size).astype(np.float32) * scale

    def score(self, features: NDArray[np.uint32], whole: NDArray[np.uint32]) -> float:
        """Return the score of the most personal passage of features [kinds, tokens] in its text."""
        if features.shape[1] == 0:
            return -10.0
        best, _, _ = best_passage(self.table[features].sum(axis=0))
        return best + float(self.table[whole].sum()) + self.bias

    @staticmethod
    def pack(table: NDArray[np.float32], bias: float, slope: float, shift: float) -> bytes:
        """Return the weights in 8 bits each."""
        scale = float(np.abs(table).max()) / 127 or 1.0
        weights = np.round(table / scale).astype("i1").tobytes()
        return _HEADER.pack(_MAGIC, scale, bias, slope, shift) + weights


class PersonalClassifier:
    """Finds texts that seem personal, and texts in an unsupported language.

    The probability is that of the most personal passage; it is calibrated on held-out texts, as if
    two of three were personal: releasing a personal text counts twice as much as keeping a harmless
    one.
    """

    def __init__(self, reader: TextAnnotator) -> None:
        self._reader = reader

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """Yield at most one finding, of the passage with the highest probability."""
        if self._reader.read(text).language == UNKNOWN:
            yield self._finding(FindingKind.UNINSPECTABLE, text, "unknown language", 1.0)
            return
        probability = self.probability(text)
        if probability >= 0.5:
            yield self._finding(FindingKind.PERSONAL, text, "personal", round(probability, 2))

    def probability(self, text: str) -> float:
        """Return the probability that the text is personal, 0 to 1."""
        reading = self._reader.read(text)
        score = self._weights.score(features_of(reading), features_of_whole(reading))
        score = self._weights.slope * score + self._weights.shift + _ODDS
        if reading.setting.exercise and reading.setting.own == 0:
            score -= _EXERCISE
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))

    def _finding(
        self, kind: FindingKind, text: str, value: str, certainty: float
    ) -> SensitiveFinding:
        return SensitiveFinding(kind, 0, len(text), value, certainty)

    @cached_property
    def _weights(self) -> LinearWeights:
        return LinearWeights(read_data_file("personal.bin"))
