"""Hashed features of a text for a linear classifier."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .annotated_text import AnnotatedText
from .gazetteer import FIRST, LAST, PLACE, WORD, fold
from .person_introductions import RELATIONS
from .topic_lexicon import TOPICS
from .word_table import WordTableColumn
from .word_tokens import word_set

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
    lambda words, small, folded: (
        _CLASS_NUMBERS[_CLASS_OF[word]] if word in _CLASS_OF else 0 for word in folded
    ),
)
_PLAIN = WordTableColumn(np.uint32, lambda words, small, folded: _hashes(folded))
_STEMS = WordTableColumn(
    np.uint32, lambda words, small, folded: _hashes(word[:_STEM] for word in folded) + np.uint32(7)
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
