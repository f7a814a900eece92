"""Finds private passages, and in them what identifies people, places, firms and accounts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ..finding import FindingKind, SensitiveFinding
from .passage_network import Passage, PassageNetwork, TaggedSpan

_TOPICS = {
    "health": FindingKind.HEALTH,
    "sexuality": FindingKind.SEXUALITY,
    "religion": FindingKind.RELIGION,
    "money": FindingKind.MONEY,
    "law": FindingKind.LAW,
    "family": FindingKind.FAMILY,
    "work": FindingKind.WORK,
    "business": FindingKind.WORK,
    "immigration": FindingKind.IMMIGRATION,
}
_VALUES = {
    "person": FindingKind.PERSON,
    "address": FindingKind.STREET_ADDRESS,
    "organisation": FindingKind.ORGANISATION,
    "number": FindingKind.ACCOUNT_NUMBER,
    "secret": FindingKind.PASSWORD,
    "birth date": FindingKind.DATE_OF_BIRTH,
}
_SURE_OF_KIND = 0.6
"""From here on, that it is private included, a passage is about what the network says; below it is
just personal."""

_SURE_OF_VALUE = 0.5
_SURE_OF_SECRET = 0.8
_NEAR = 0.3
"""Values are looked for in passages that are private with this probability at least."""

_STRICTER = 0.8
"""By how much (log-odds) the threshold rises where a text has e times as many passages: the highest
of many scores is high by chance."""

_CALM, _LOWER = -1.0, 0.4
"""High scores are rarer by chance where nine of ten other passages are below the first figure
(log-odds): the threshold falls by the second times the distance. It never rises above that for the
number of passages, so that passages which look private hide no other one.
"""

_KEPT = 4
"""Texts whose reading is kept: the same one is asked about twice."""

_NO_LETTERS = re.compile(r"[\W\d_]*\Z")
_READ = re.compile(
    "[A-Za-z\u00c0-\u024f\u1e00-\u1eff\u0370-\u052f\u0600-\u06ff\u0900-\u097f"
    "\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]"
)
"""Letters of the scripts that the network was trained on, or whose words it can read."""

_LETTER = re.compile(r"[^\W\d_]")


class PassageDetector:
    """Finds at most one topic of a text, the most probable one, and the values in its passages."""

    def __init__(self, network: PassageNetwork) -> None:
        self._read = lru_cache(_KEPT)(network.read)

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """Yield the topic first; a text in another script than the network reads is a finding."""
        if _NO_LETTERS.match(text):
            return
        if not _is_readable(text):
            yield SensitiveFinding(FindingKind.UNINSPECTABLE, 0, len(text), "unknown language")
            return
        passages = self._read(text)
        best = max(passages, key=lambda passage: passage.private)
        if log_odds(best.private) < find_threshold(passages):
            return  # names in a public text are public, too
        yield _topic(best)
        for passage in passages:
            if passage.private >= _NEAR:
                yield from filter(None, (_value(text, span) for span in passage.spans))

    def is_public_document(self, text: str) -> bool:
        """Whether a text is longer than a message, and private in no passage."""
        if _NO_LETTERS.match(text) or not _is_readable(text):
            return False
        passages = self._read(text)
        best = max(passages, key=lambda passage: passage.private)
        return len(passages) > 1 and log_odds(best.private) < find_threshold(passages)


def find_threshold(passages: Sequence[Passage]) -> float:
    """The log-odds from which the most private passage of a text makes it private."""
    if len(passages) == 1:
        return 0.0
    odds = sorted((log_odds(passage.private) for passage in passages), reverse=True)
    level = odds[1 + len(odds) // 10]
    return max(0.0, _STRICTER * math.log(len(odds)) - _LOWER * max(0.0, _CALM - level))


def _topic(passage: Passage) -> SensitiveFinding:
    kind = FindingKind.PERSONAL
    if passage.private * passage.kind_probability >= _SURE_OF_KIND:
        kind = _TOPICS.get(passage.kind, kind)
    certainty = round(passage.private, 2)
    return SensitiveFinding(kind, passage.start, passage.end, kind.value, certainty)


def _value(text: str, span: TaggedSpan) -> SensitiveFinding | None:
    value, tag = text[span.start : span.end], span.tag
    least = _SURE_OF_SECRET if tag == "secret" else _SURE_OF_VALUE
    if span.probability < least or not any(map(str.isalnum, value)):
        return None
    if tag == "address" and _NO_LETTERS.match(value):
        tag = "number"
    certainty = round(span.probability, 2)
    return SensitiveFinding(_VALUES[tag], span.start, span.end, value.casefold(), certainty)


def log_odds(probability: float) -> float:
    probability = min(max(probability, 1e-6), 1 - 1e-6)
    return math.log(probability / (1 - probability))


def _is_readable(text: str) -> bool:
    letters = len(_LETTER.findall(text))
    return len(_READ.findall(text)) * 2 >= letters
