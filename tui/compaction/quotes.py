"""Quotes: sentences of the user that a summary must not lose, found without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..chats.message import Message
from .cues import (
    COMMAND,
    CORRECTION,
    DECISION,
    OPEN,
    PASSING,
    PHATIC,
    PREFERENCE,
    REASON,
    RULE,
    SELF,
)
from .sentences import exact_strings, kind_of, names, sentences, without_lead, words

SHORT_REPLY = 8
"""A prompt of at most so many words may be the answer to the question before it."""
MAX_SENTENCE = 400
"""Characters above which a sentence is no statement but pasted text."""
ENOUGH = 1.0
"""The score from which a sentence may be kept, where there is room."""
STATEMENT = 4
"""Words from which a sentence that asks nothing says something."""
RARE = 3
"""In so many statements at most is a word that tells what two of them have in common."""
TELLING = 24
"""In more statements than these a word does not tell what they are about."""
_WORTH = {"address": 3.5, "code": 3.5, "date": 3.0, "time": 3.0, "number": 2.0}
"""By the kind of an exact string: what nobody can guess counts most."""
_WEIGHTS = (
    (RULE, 3.0),
    (COMMAND, 3.0),
    (PREFERENCE, 2.5),
    (DECISION, 2.0),
    (REASON, 1.5),
    (OPEN, 3.0),
    (SELF, 1.0),
    (PHATIC, -1.0),
    (PASSING, -1.0),
)
_STOP = frozenset(
    words(
        "the a an and or of to in on at for with is are was were be it its this that my our your we"
        " i you he she they as by from not but so if then no yes do does did have has had will"
        " would can could should may just about into over than very too also there here what which"
        " who actually correction sorry now instead again mind want while need make more some any"
        " while think know get got go going"
    )
)


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence as it was written; `keys` are its exact strings and names, `place` its order."""

    text: str
    place: int
    score: float
    keys: tuple[str, ...] = ()
    corrects: bool = False

    topic: frozenset[str] = frozenset()
    """The words that say what it is about, without its values."""


def find_quotes(messages: Sequence[Message]) -> list[Quote]:
    """What of the user's words is worth keeping, in their order."""
    found: list[Quote] = []
    seen: set[str] = set()
    question = ""
    for message in messages:
        if message.role == "assistant":
            last = list(sentences(message.content))[-1:]
            question = last[0] if last and last[0].endswith("?") else ""
            continue
        said = list(sentences(message.content))
        reply = question if len(words(message.content)) <= SHORT_REPLY else ""
        for sentence in said:
            quote = _judge(sentence, len(found), reply)
            if quote is not None and quote.text not in seen:
                seen.add(quote.text)
                found.append(quote)
    return found


def _judge(sentence: str, place: int, reply_to: str) -> Quote | None:
    """The sentence as a quote when it says enough."""
    if len(sentence) > MAX_SENTENCE:
        return None
    text = without_lead(sentence)
    if len(words(text)) < 2:
        return None
    exact, named = exact_strings(text), names(text)
    corrects = CORRECTION.search(sentence) is not None
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
    keys = tuple(dict.fromkeys([*exact, *named]))
    values = {word for key in keys for word in words(key)}
    topic = frozenset(words(text)) - values - _STOP
    return Quote(text, place, score, keys, corrects, topic)


def corrected_pairs(quotes: Sequence[Quote]) -> list[tuple[Quote, Quote]]:
    """Each quote that no longer holds, with the later one that corrects it."""
    by_word: dict[str, list[Quote]] = {}
    for quote in quotes:
        for word in quote.topic:
            by_word.setdefault(word, []).append(quote)
    counts = {word: len(found) for word, found in by_word.items()}
    pairs: list[tuple[Quote, Quote]] = []
    for later in quotes:
        # Words that many sentences have tell nothing, and looking at all pairs would take long.
        telling = [word for word in later.topic if counts[word] <= TELLING]
        near = {quote.place: quote for word in telling for quote in by_word[word]}
        pairs += [
            (earlier, later)
            for place, earlier in sorted(near.items())
            if place < later.place and is_corrected(earlier, later, counts)
        ]
    return pairs


def without_corrected(quotes: Sequence[Quote]) -> list[Quote]:
    """The quotes that still hold."""
    gone = {earlier.place for earlier, _ in corrected_pairs(quotes)}
    return [quote for quote in quotes if quote.place not in gone]


def is_corrected(earlier: Quote, later: Quote, counts: Mapping[str, int]) -> bool:
    """Whether both say different values of one thing; `counts` is how many quotes have a word."""
    old = {key for key in earlier.keys if key not in later.keys}
    new = {key for key in later.keys if key not in earlier.keys}
    shared = earlier.topic & later.topic
    if not shared:
        return False
    if {kind_of(key) for key in old} & {kind_of(key) for key in new}:
        rare = sum(counts.get(word, 0) <= RARE for word in shared)
        smaller = min(len(earlier.topic), len(later.topic))
        return bool(later.corrects and rare) or (len(shared) > 1 and len(shared) >= 0.75 * smaller)
    # A value may be a plain word, as in “the cake should be a walnut cake instead”.
    return later.corrects and not old and any(counts.get(word, 0) <= RARE for word in shared)


def missing(quotes: Iterable[Quote], summary: str) -> list[Quote]:
    """The quotes that the summary does not tell."""
    told = " ".join(summary.split()).casefold()
    told_words = set(words(summary))
    return [quote for quote in quotes if not _is_told(quote, told, told_words)]


def _is_told(quote: Quote, told: str, told_words: set[str]) -> bool:
    if any(" ".join(key.split()).casefold() not in told for key in quote.keys):
        return False
    topic = quote.topic
    return bool(topic) and len(topic & told_words) / len(topic) >= 0.7


def within(quotes: Sequence[Quote], budget: int, count: Callable[[str], int]) -> list[Quote]:
    """Those that say most for their length until `budget` tokens are full, in their order."""
    costs = {quote.place: count(quote.text) + 3 for quote in quotes}
    chosen: list[Quote] = []
    for quote in sorted(quotes, key=lambda q: (q.score / costs[q.place] ** 0.35, q.place))[::-1]:
        if costs[quote.place] <= budget:
            budget -= costs[quote.place]
            chosen.append(quote)
    return sorted(chosen, key=lambda quote: quote.place)
