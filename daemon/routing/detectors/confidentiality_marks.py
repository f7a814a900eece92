"""Detects requests that a text stays here, and marks that it is confidential, in many languages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..text_analysis.character_folding import folds
from ..text_analysis.data_files import read_sections
from ..text_analysis.text_index import Span, lowered
from .context_words import Phrases, windows
from .finding import FindingKind, SensitiveFinding

_SENTENCE = re.compile(r"[^.:;!?\n。：；！？]++(?:\.(?=\w)[^.:;!?\n。：；！？]++)*+")
_EDGE = 600
"""Characters of the beginning and the end of a text that may hold such a request."""
_LONGEST, _NEAR = 240, 64
_SHORT = 4
"""Words up to which a sentence such as "strictly local" needs no verb."""
_WORD = re.compile(r"[^\W_]+")
_ENGLISH = re.compile(r"\b(?:the|and|you|you'll|an|with|of|for|any|your|than)\b")
_PORTUGUESE = re.compile(r"\b(?:não|é|são|uma|do|ao)\b")
_NO = re.compile(r"(?<= )no(?= (?!part|one|data|word|copy|text|content|information))")
_CODE = re.compile(r"(?:[ ]{4}|\t|[ ]?(?:#|//|\*|--|;))")
_CLAUSE_END = r"(?= *(?:$|[,)]|[-–—] |(?:please|only|for|por|as)\b))"


def _any_of(words: list[str]) -> re.Pattern[str]:
    """Return a pattern for whole words; in scripts without spaces also within others."""
    cased = [word for word in words if any(c.lower() != c.upper() for c in word)]
    whole, begins, last = (
        "|".join(re.escape(word.rstrip("*$")) for word in cased if _sign(word) == sign)
        for sign in ("", "*", "$")
    )
    others = "|".join(re.escape(word) for word in words if word not in cased)
    edge = r"(?![\w'’]|-\w)"
    return re.compile(
        rf"(?<!\w)(?:(?:{whole}){edge}|(?:{begins or '(?!)'})|(?:{last or '(?!)'}){_CLAUSE_END})"
        rf"|{others or '(?!)'}"
    )


def _folded(words: str) -> str:
    return words.translate(str.maketrans(folds(words)))  # as the texts are


def _sign(word: str) -> str:
    return word[-1] if word[-1] in "*$" else ""


_TABLE = read_sections("marks.txt")
_KEEP, _THIS, _ONLY, _HERE, _NOT, _SEND, _AWAY, _QUESTION, _OWN, _NO_REQUEST = (
    _any_of(_folded(", ".join(_TABLE[name])).split(", "))
    for name in (
        "keep",
        "this",
        "only",
        "here",
        "not",
        "send",
        "away",
        "questions",
        "own",
        "no requests",
    )
)
_PHRASES = re.compile("|".join(_TABLE["phrases"]))
_PIECES = Phrases("in marks: confidential")
_CONFIDENTIAL = re.compile("|".join(_TABLE["confidential"]))


def find_marks(text: str) -> Iterator[SensitiveFinding]:
    """Yield sentences with which the author wants a text kept here, and confidentiality marks."""
    lower = lowered(text)
    for start, end in _edges(lower):
        for sentence in _SENTENCE.finditer(lower, start, end):
            said = sentence[0].lstrip()
            if len(said) <= _LONGEST and _asks_to_stay(said):
                begin = sentence.end() - len(said)
                yield SensitiveFinding(FindingKind.MARKED_PRIVATE, begin, sentence.end(), said)
    # The pattern runs only near a piece of its phrases, since most texts have few.
    places = sorted((end, end) for end in _PIECES.ends(text))
    for start, stop in windows(places, _NEAR, len(lower)):
        for match in _CONFIDENTIAL.finditer(lower, start, stop):
            if _is_said_of_this_text(lower, match):
                yield SensitiveFinding(FindingKind.CONFIDENTIAL, *match.span(), match[0])


def _edges(text: str) -> list[Span]:
    if len(text) <= 2 * _EDGE:
        return [(0, len(text))]
    return [(0, _EDGE), (len(text) - _EDGE, len(text))]


def _asks_to_stay(sentence: str) -> bool:
    if _QUESTION.match(sentence) or _NO_REQUEST.search(sentence):
        return False
    if _PHRASES.search(sentence):
        return True
    # The Polish word for "this" is none in English, nor is the Spanish one
    # for "not" one there, or in Portuguese.
    this = sentence.replace(" to ", " of ") if _ENGLISH.search(sentence) else sentence
    here = _HERE.search(sentence) is not None
    if here and len(sentence.split()) <= _SHORT and _are_near(sentence, _ONLY, _HERE):
        return True
    if here and _are_near(sentence, _KEEP, _HERE):
        return _THIS.search(this) is not None or _ONLY.search(sentence) is not None
    if _ENGLISH.search(sentence) or _PORTUGUESE.search(sentence):
        sentence = _NO.sub("  ", sentence)
    away = _AWAY.search(sentence)
    if away is None or not _are_near(sentence, _NOT, _AWAY):
        return False
    return _are_near(this, _THIS, _AWAY) or _are_near(sentence, _SEND, _AWAY)


def _are_near(sentence: str, one: re.Pattern[str], other: re.Pattern[str]) -> bool:
    others = [match.span() for match in other.finditer(sentence)]
    return any(
        max(match.end(), end) - min(match.start(), start) <= _NEAR
        for match in one.finditer(sentence)
        for start, end in others
        if match.end() <= start or end <= match.start()
    )


def _is_said_of_this_text(lower: str, match: re.Match[str]) -> bool:
    """Whether the phrase is a line of its own, or is said of something of the author's."""
    line = lower.rfind("\n", 0, match.start()) + 1
    stop = lower.find("\n", match.end())
    before, after = lower[line : match.start()], lower[match.end() : stop if stop >= 0 else None]
    if "internal" in match[0] and _CODE.match(before):
        return False  # of a function
    if "?" in after or _QUESTION.match(before.strip()):
        return False
    if len(_WORD.findall(before)) <= 1 and not re.match(r"[- ]?\w", after):
        return True
    begin = max(before.rfind(sign) for sign in ".:;!?\"'([") + 1
    return _OWN.search(before, max(begin, len(before) - _NEAR)) is not None
