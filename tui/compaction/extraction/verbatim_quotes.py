"""Finds sentences of the user that a summary must keep verbatim, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ...chats.message import Message
from . import cue_phrases
from .sentence_splitter import (
    exact_strings,
    is_lead,
    kind_of,
    names,
    sentences,
    stems,
    subject_stems,
    without_lead,
    words,
)

SHORT_REPLY = 8
"""A prompt of at most this many words may answer the question before it."""
MAX_SENTENCE = 400
"""Characters above which a sentence is pasted text rather than a statement."""
ENOUGH = 1.0
"""The score from which a sentence may be kept, if there is space."""
STATEMENT = 4
"""Least words of a statement."""
_WORTH = {"address": 3.5, "code": 3.5, "date": 3.0, "time": 3.0, "number": 2.0}
"""By the kind of an exact string; those that cannot be inferred count most."""
_WEIGHTS = (
    (cue_phrases.RULE, 3.0),
    (cue_phrases.COMMAND, 3.0),
    (cue_phrases.PREFERENCE, 2.5),
    (cue_phrases.DECISION, 2.0),
    (cue_phrases.REASON, 1.5),
    (cue_phrases.OPEN, 3.0),
    (cue_phrases.SELF, 1.0),
    (cue_phrases.PHATIC, -1.0),
    (cue_phrases.PASSING, -1.0),
)


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence, verbatim; `keys` are its exact strings and names, `place` its order.

    `message` is the id of its message; a `folded` one also mentions earlier values.
    """

    text: str
    place: int
    score: float
    keys: tuple[str, ...] = ()
    corrects: bool = False
    topic: frozenset[str] = frozenset()
    """The stems of the words of its subject, without its values."""
    message: str = ""
    folded: bool = False


def find_quotes(messages: Sequence[Message]) -> list[Quote]:
    """Return the user's statements worth keeping, in order; of repetitions the last."""
    found: dict[str, Quote] = {}
    question = ""
    place = 0
    for message in messages:
        if message.role == "assistant":
            last = list(sentences(message.content))[-1:]
            question = last[0] if last and last[0].endswith("?") else ""
        if message.role != "user":
            continue
        reply = question if len(words(message.content)) <= SHORT_REPLY else ""
        for sentence in sentences(message.content):
            place += 1
            quote = _scored_quote(sentence, reply)
            if quote is not None:
                found.pop(quote.text, None)
                found[quote.text] = replace(quote, place=place, message=message.id)
    return list(found.values())


def _scored_quote(sentence: str, reply_to: str) -> Quote | None:
    """Return the sentence as a quote if it says enough, else None."""
    if len(sentence) > MAX_SENTENCE or is_lead(sentence):
        return None
    text = without_lead(sentence)
    if len(words(text)) < 2:
        return None
    exact, named = exact_strings(text), names(text)
    corrects = cue_phrases.CORRECTION.search(sentence) is not None
    score = 1.0 * (len(words(text)) >= STATEMENT)
    score += sum(sorted((_WORTH.get(kind_of(key), 2.0) for key in exact), reverse=True)[:2])
    score += 1.5 * min(len(named), 2) + 2.0 * corrects
    score += sum(weight for cue, weight in _WEIGHTS if cue.search(text))
    if text.endswith("?"):
        score -= 3.5
    if reply_to:
        score += 1.0
        text = f"{text} (asked: {reply_to})"
    if score < ENOUGH:
        return None
    named = [name for name in named if not any(name in key for key in exact)]
    keys = tuple(dict.fromkeys([*exact, *named]))
    rest = text
    for key in sorted(keys, key=len, reverse=True):
        rest = rest.replace(key, " ")
    topic = subject_stems(rest)
    return Quote(text, 0, score, keys, corrects, topic)


def missing(quotes: Iterable[Quote], summary: str) -> list[Quote]:
    """Return the quotes that the summary does not cover."""
    summary_text = " ".join(summary.split()).casefold()
    summary_stems = stems(summary)
    return [q for q in quotes if q.folded or not _is_covered(q, summary_text, summary_stems)]


def _is_covered(quote: Quote, summary_text: str, summary_stems: frozenset[str]) -> bool:
    if any(" ".join(key.split()).casefold() not in summary_text for key in quote.keys):
        return False
    topic = quote.topic
    return bool(topic) and len(topic & summary_stems) / len(topic) >= 0.7


def within(quotes: Sequence[Quote], budget: int, count: Callable[[str], int]) -> list[Quote]:
    """Return the quotes with the most value for their length within `budget` tokens, in order."""
    costs = {quote.place: count(quote.text) + 3 for quote in quotes}
    chosen: list[Quote] = []
    for quote in sorted(quotes, key=lambda q: (q.score / costs[q.place] ** 0.35, q.place))[::-1]:
        if costs[quote.place] <= budget:
            budget -= costs[quote.place]
            chosen.append(quote)
    return sorted(chosen, key=lambda quote: quote.place)
