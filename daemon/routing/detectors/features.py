"""A text as hashed features for a linear classifier."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .gazetteer import FIRST, LAST, PLACE, WORD, fold
from .introductions import RELATIONS
from .reading import Reading
from .words import word_set

BITS = 18
_MASK = (1 << BITS) - 1
_STEM = 5
_QUOTES = '"“„«'
_GOLDEN = np.uint32(0x9E3779B1)

_OWN = word_set(
    "my our mine i'm i've i'd we're we've mein meine meinem meinen meiner meines unser unsere "
    "unserem unseren mon ma mes notre nos j'ai mi mis nuestro nuestra nuestros"
)
_SELF = word_set("i we me us ich wir mir mich uns je nous moi yo nosotros me nos")
_THEY = word_set(
    "he she him her his hers er sie ihm ihr ihn sein seine il elle lui leur el ella su"
)
_MONEY = word_set("$ € £ eur euro euros usd dollar dollars pounds quid franken")
_GREETING = word_set(
    "dear regards sincerely hi hello hey cheers geehrte geehrter liebe lieber grusse gruss bonjour "
    "cher chere cordialement salut estimado estimada saludos atentamente hola"
)


_CLASSES = {
    **dict.fromkeys(_MONEY, "money sign"),
    **dict.fromkeys(map(fold, RELATIONS), "kin"),
    **dict.fromkeys(_GREETING, "greeting"),
    **dict.fromkeys(_THEY, "they"),
    **dict.fromkeys(_SELF, "self"),
    **dict.fromkeys(_OWN, "own"),
}


def features_of(reading: Reading) -> NDArray[np.uint32]:
    """Places of weights, shape [kinds of features, tokens]: words, stems, pairs, and classes.

    Names become one class, so that nobody's name is learnt; so do numbers and the words of a
    topic.
    """
    words = ["<number>" if token[0].isdigit() else token for token in reading.tokens]
    for at, word in zip(reading.places, reading.folded, strict=True):
        words[at] = word
    classes = {at: _CLASSES[word] for at, word in enumerate(words) if word in _CLASSES}
    for number, flag in reading.flags.items():
        at = reading.places[number]
        if flag & (FIRST | LAST) and not flag & WORD:
            words[at], classes[at] = "<name>", "name"
        elif flag in (0, PLACE):
            classes.setdefault(at, "place" if flag else "unknown name")
    for hit in reading.hits:
        for at in reading.places[hit.at : hit.at + hit.length]:
            classes.setdefault(at, hit.topic if hit.weight > 1 else f"{hit.topic} 1")
    distinct = {word: number for number, word in enumerate(dict.fromkeys(words))}
    numbers = np.array([distinct[word] for word in words], np.intp)
    plain = _hashes(distinct)[numbers]
    rows = [
        plain,
        _hashes([word[:_STEM] for word in distinct])[numbers] + np.uint32(7),
        np.roll(plain, 1) * _GOLDEN + plain,
        np.roll(plain, 2) * _GOLDEN + plain + np.uint32(1),
        *_of_classes(classes, len(words)),
    ]
    return _places(np.stack(rows))


def _of_classes(classes: dict[int, str], size: int) -> tuple[NDArray[np.uint32], ...]:
    """Hashes of the classes of `size` tokens, and of each with the class before it."""
    places = sorted(classes)
    row = [classes[at] for at in places]
    pairs = [f"{last}>{one}" for last, one in zip(["start", *row], row, strict=False)]
    none = _hashes([""])[0]
    alone, paired = np.full(size, none), np.full(size, none)
    alone[places], paired[places] = _hashes(row), _hashes(pairs)
    return alone + np.uint32(11), paired


def features_of_whole(reading: Reading) -> NDArray[np.uint32]:
    """Places of weights for what is true of the text as a whole."""
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


def _hashes(words: Iterable[str]) -> NDArray[np.uint32]:
    return np.array([zlib.crc32(word.encode("utf-8", "replace")) for word in words], np.uint32)
