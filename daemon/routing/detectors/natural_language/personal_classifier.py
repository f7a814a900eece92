"""A small linear classifier for texts about a person's own life or work."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...text_analysis.data_files import read_data_file
from ..finding import FindingKind, SensitiveFinding
from .annotated_text import AnnotatedText, TextAnnotator
from .gazetteer import FIRST, LAST, PLACE, WORD, fold
from .language_detection import UNKNOWN
from .person_introductions import RELATIONS
from .topic_lexicon import TOPICS
from .word_table import WordTableColumn, word_set

BITS = 18
_MASK = (1 << BITS) - 1
_STEM = 5
_QUOTES = '"“„«'
_GOLDEN = np.uint32(0x9E3779B1)

_OWN = word_set("classifier: own")
_SELF = word_set("classifier: self")
_THEY = word_set("classifier: they")
_MONEY = word_set("classifier: money")
_GREETING = word_set("classifier: greetings")


_CLASS_OF = {
    **dict.fromkeys(_MONEY, "money sign"),
    **dict.fromkeys(map(fold, RELATIONS), "kin"),
    **dict.fromkeys(_GREETING, "greeting"),
    **dict.fromkeys(_THEY, "they"),
    **dict.fromkeys(_SELF, "self"),
    **dict.fromkeys(_OWN, "own"),
}
_TOPICS = (*TOPICS, "event", "general", "study")
# The first stands for no class; as the predecessor of the first class it reads `start`.
_CLASSES = (
    *("", "money sign", "kin", "greeting", "they", "self", "own", "name", "place", "unknown name"),
    *_TOPICS,
    *(f"{topic} 1" for topic in _TOPICS),
)
_CLASS_NUMBERS = {name: number for number, name in enumerate(_CLASSES)}
_NAME, _PLACE = _CLASS_NUMBERS["name"], _CLASS_NUMBERS["place"]
_UNKNOWN = _CLASS_NUMBERS["unknown name"]


def _hashes(words: Iterable[str]) -> NDArray[np.uint32]:
    return np.array([zlib.crc32(word.encode("utf-8", "replace")) for word in words], np.uint32)


_ALONE = _hashes(_CLASSES)
_PAIRED = np.stack(
    [_hashes(f"{last or 'start'}>{one}" for one in _CLASSES) for last in _CLASSES]
)  # [the previous class, the class]
_CLASS = WordTableColumn(
    np.intp,
    lambda words: (_CLASS_NUMBERS[_CLASS_OF[word]] if word in _CLASS_OF else 0 for word in words),
)
_PLAIN = WordTableColumn(np.uint32, _hashes)
_STEMS = WordTableColumn(
    np.uint32, lambda words: _hashes(word[:_STEM] for word in words) + np.uint32(7)
)
_OF_NAME = np.uint32(zlib.crc32(b"<name>")), np.uint32(zlib.crc32(b"<name>"[:_STEM]) + 7)


def features_of(reading: AnnotatedText) -> NDArray[np.uint32]:
    """Return weight indexes, shape [kinds of features, tokens]: words, stems, pairs, and classes.

    All names map to one class, so that no individual name is learnt; so do numbers and the words of
    a topic.
    """
    table, numbers = reading.table, reading.numbers
    plain, stems = table.column(_PLAIN)[numbers], table.column(_STEMS)[numbers]
    classes = table.column(_CLASS)[numbers]
    capital = reading.places[list(reading.flags)]
    flags = np.array(list(reading.flags.values()), np.uint8)
    names = capital[((flags & (FIRST | LAST)) != 0) & ((flags & WORD) == 0)]
    plain[names], stems[names] = _OF_NAME
    classes[names] = _NAME
    for flag, number in ((PLACE, _PLACE), (0, _UNKNOWN)):
        free = capital[flags == flag]
        classes[free[classes[free] == 0]] = number
    for hit in reading.hits:
        number = _CLASS_NUMBERS[hit.topic if hit.weight > 1 else f"{hit.topic} 1"]
        for at in reading.places[hit.at : hit.at + hit.length].tolist():
            if not classes[at]:
                classes[at] = number
    rows = [
        plain,
        stems,
        np.roll(plain, 1) * _GOLDEN + plain,
        np.roll(plain, 2) * _GOLDEN + plain + np.uint32(1),
        *_of_classes(classes),
    ]
    return _places(np.stack(rows))


def _of_classes(classes: NDArray[np.intp]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return hashes of each token's class, and of each class with the previous one."""
    paired = np.full(len(classes), _ALONE[0])
    places = np.flatnonzero(classes)
    row = classes[places]
    paired[places] = _PAIRED[np.concatenate(([0], row[:-1])), row] if len(row) else 0
    return _ALONE[classes] + np.uint32(11), paired


def features_of_whole(reading: AnnotatedText) -> NDArray[np.uint32]:
    """Return weight indexes of features of the text as a whole."""
    text, words, setting = reading.text, reading.small, reading.setting
    own = min(setting.own, 3)
    marks = [
        f"own {own}",
        f"begins {words[0] if words else ''}",
        f"begins {' '.join(words[:2])}",
        f"own {own}, made up {setting.fiction} {setting.exercise}",
        f"code {setting.code}",
        f"asks {text.rstrip().endswith('?')}, own {own}",
        f"lines {min(text.count(chr(10)), 5)}",
        f"quotes {any(quote in text for quote in _QUOTES)}, own {own}",
        f"colon {':' in text[:60]}",
    ]
    return _places(_hashes([f"whole: {mark}" for mark in marks]))


def _places(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return (hashes ^ (hashes >> np.uint32(BITS))) & np.uint32(_MASK)


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
            yield SensitiveFinding(FindingKind.UNINSPECTABLE, 0, len(text), "unknown language")
            return
        probability = self.probability(text)
        if probability >= 0.5:
            certainty = round(probability, 2)
            yield SensitiveFinding(FindingKind.PERSONAL, 0, len(text), "personal", certainty)

    def probability(self, text: str) -> float:
        """Return the probability that the text is personal, 0 to 1."""
        reading = self._reader.read(text)
        score = self._weights.score(features_of(reading), features_of_whole(reading))
        score = self._weights.slope * score + self._weights.shift + _ODDS
        if reading.setting.exercise and reading.setting.own == 0:
            score -= _EXERCISE
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))

    @cached_property
    def _weights(self) -> LinearWeights:
        return LinearWeights(read_data_file("personal.bin"))
