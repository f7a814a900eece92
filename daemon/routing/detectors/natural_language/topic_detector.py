"""Detects private topics: health, money, law, family, work, immigration, love and faith."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from ..finding import FindingKind, SensitiveFinding
from .annotated_text import AnnotatedText, TextAnnotator
from .language_detection import UNKNOWN
from .text_genre import TextGenre
from .topic_lexicon import TOPICS, LexiconMatch
from .word_table import members, word_set

_SENTENCE = re.compile(r"[.!?\n]\s+")
_REACH = 1  # a sentence and its neighbours form one situation
_NEEDED = 2.0
_ENOUGH = 4.0

_OWN = word_set("topics: own")
_OWN_VERBS = word_set("topics: own verbs")
_I = word_set("topics: I")
_THEY = word_set("topics: they")
_MARKS = members(_OWN | _I | _THEY, folded=True)
# Work products are not private life: "my essay on chemotherapy".
_STUDY_REACH = 3


class _Score(msgspec.Struct):
    weight: float = 0.0
    personal: float = 0.0
    first: int = -1
    last: int = -1


class TopicDetector:
    """Finds sensitive situations of a particular person, not questions about a topic.

    A passage counts if it has enough of a topic's words and is about the writer, a relation, or an
    event in a person's life; documents of work life count by their words alone. Unknown languages
    are left to `PersonalClassifier`.
    """

    def __init__(self, reader: TextAnnotator) -> None:
        self._reader = reader

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """Yield at most one finding per topic: its strongest passage."""
        reading = self._reader.read(text)
        setting = reading.setting
        if not reading.words or reading.language == UNKNOWN:
            return
        hits = reading.hits
        if reading.language != "en":
            hits = hits + reading.strong_english_hits
        best: dict[str, tuple[float, _Score]] = {}
        for topic, score in _passages(reading, hits):
            value = _value(topic, score, setting)
            if value >= _ENOUGH and value > best.get(topic, (0.0,))[0]:
                best[topic] = value, score
        for topic, (value, score) in best.items():
            start, end = reading.starts[score.first], reading.ends[score.last]
            yield SensitiveFinding(
                TOPICS[topic], start, end, topic, round(min(0.95, 0.35 + 0.05 * value), 2)
            )


def _value(topic: str, score: _Score, setting: TextGenre) -> float:
    """Return the weight of a passage; from `_ENOUGH` on it is a finding."""
    if topic == FindingKind.WORK and score.weight >= 8:
        return score.weight / 2
    if score.weight < _NEEDED or score.personal <= 0:
        return 0.0
    if setting.fiction and setting.own == 0:
        return 0.0
    return min(score.weight, 8.0) * min(score.personal, 3.0) ** 0.5


def _passages(reading: AnnotatedText, hits: Sequence[LexiconMatch]) -> Iterator[tuple[str, _Score]]:
    """Yield the scores of each sentence with its neighbours, for each topic in it."""
    ends = [match.start() for match in _SENTENCE.finditer(reading.text)]
    by_sentence: dict[int, list[LexiconMatch]] = {}
    others: Counter[tuple[str, int]] = Counter()
    for hit in hits:
        number = bisect_right(ends, reading.starts[hit.at])
        here = by_sentence.setdefault(number, [])
        if hit.topic in TOPICS:
            here.append(hit)
        else:
            others[hit.topic, number] += 1
    personal: defaultdict[int, float] = defaultdict(float)
    if not reading.setting.exercise:
        for at, value in _personal_marks(reading):
            personal[bisect_right(ends, reading.starts[at])] += value
    for number in by_sentence:
        around = range(number - _REACH, number + _REACH + 1)
        near = [hit for one in around for hit in by_sentence.get(one, ())]
        if not near:
            continue
        marks = sum(personal.get(one, 0.0) / (1 + abs(one - number)) for one in around)
        marks += 0.5 * min(sum(others["event", one] for one in around), 2) if marks else 0.0
        marks -= 1.0 * others["general", number]
        if marks <= 0:  # without a person in it only documents of work life count
            near = [hit for hit in near if hit.topic == FindingKind.WORK]
        yield from _topics(near, marks)


def _topics(near: Sequence[LexiconMatch], marks: float) -> Iterator[tuple[str, _Score]]:
    scores: dict[str, _Score] = {}
    counted: set[tuple[str, int]] = set()
    for hit in near:
        if (hit.topic, hit.at) in counted:
            continue
        for at in range(hit.at, hit.at + hit.length):
            counted.add((hit.topic, at))
        score = scores.get(hit.topic)
        if score is None:
            score = scores[hit.topic] = _Score(personal=marks, first=hit.at)
        score.weight += hit.weight
        score.first = min(score.first, hit.at)
        score.last = max(score.last, hit.at + hit.length - 1)
    yield from scores.items()


def _personal_marks(reading: AnnotatedText) -> Iterator[tuple[int, float]]:
    """Yield the positions of references to persons, and their weights."""
    folded = reading.folded
    for at in reading.where(_MARKS):
        word = folded[at]
        if word in _OWN:
            if _STUDIES.isdisjoint(folded[at + 1 : at + 1 + _STUDY_REACH]):
                yield at, 1.0
        elif word in _I:
            if not _OWN_VERBS.isdisjoint(folded[at - 1 : at + 3] if at else folded[:3]):
                yield at, 1.0
        else:
            yield at, 0.4


_STUDIES = word_set("topics: studies")
