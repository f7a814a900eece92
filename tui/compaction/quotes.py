"""Quotes: sentences of the user that a summary must not lose, found without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..chats.message import Message
from .cues import CORRECTION, DECISION, OPEN, PREFERENCE, RULE, SELF
from .sentences import exact_strings, names, sentences, without_lead, words

SHORT_REPLY = 8
"""A prompt of at most so many words may be the answer to the question before it."""
MAX_SENTENCE = 400
"""Characters above which a sentence is no statement but pasted text."""
ENOUGH = 2.0
"""The score from which a sentence is worth keeping."""
_STOP = frozenset(
    words(
        "the a an and or of to in on at for with is are was were be it its this that my our your we"
        " i you he she they as by from not but so if then no yes do does did have has had will"
        " would can could should may just about into over than very too also there here what which"
        " who actually correction sorry now instead"
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

    @property
    def topic(self) -> frozenset[str]:
        """The words that say what it is about, without its values."""
        values = {word for key in self.keys for word in words(key)}
        return frozenset(words(self.text)) - values - _STOP


def find_quotes(messages: Sequence[Message]) -> list[Quote]:
    """What of the user's words is worth keeping, in their order."""
    found: list[Quote] = []
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
            if quote is not None:
                found.append(quote)
    return found


def _judge(sentence: str, place: int, reply_to: str) -> Quote | None:
    """The sentence as a quote when it says enough."""
    if len(sentence) > MAX_SENTENCE or len(words(sentence)) < 2:
        return None
    exact, named = exact_strings(sentence), names(sentence)
    corrects = CORRECTION.search(sentence) is not None
    score = 2.0 * min(len(exact), 2) + 1.2 * min(len(named), 2)
    score += 2.5 * (RULE.search(sentence) is not None)
    score += 2.0 * (PREFERENCE.search(sentence) is not None)
    score += 2.0 * (DECISION.search(sentence) is not None)
    score += 2.0 * (OPEN.search(sentence) is not None)
    score += 2.0 * corrects + 1.0 * (SELF.search(sentence) is not None)
    if sentence.endswith("?"):
        score -= 2.5
    if reply_to:
        score += 1.0
    if score < ENOUGH:
        return None
    text = without_lead(sentence)
    if reply_to:
        text = f"{text} (asked: {reply_to})"
    return Quote(text, place, score, tuple(dict.fromkeys([*exact, *named])), corrects)


def corrected_pairs(quotes: Sequence[Quote]) -> list[tuple[Quote, Quote]]:
    """Each quote that no longer holds, with the later one that corrects it."""
    return [
        (earlier, later)
        for later in quotes
        if later.corrects
        for earlier in quotes
        if earlier.place < later.place and is_corrected(earlier, later)
    ]


def without_corrected(quotes: Sequence[Quote]) -> list[Quote]:
    """The quotes that still hold."""
    gone = {earlier.place for earlier, _ in corrected_pairs(quotes)}
    return [quote for quote in quotes if quote.place not in gone]


def is_corrected(earlier: Quote, later: Quote) -> bool:
    """Whether both say different values of one thing."""
    new = {key for key in later.keys if key not in earlier.keys}
    if not earlier.keys or not new:
        return False
    shared = earlier.topic & later.topic
    repeats_value = any(key in later.text for key in earlier.keys)
    smaller = max(1, min(len(earlier.topic), len(later.topic)))
    return len(shared) >= 2 and len(shared) / smaller >= (0.34 if repeats_value else 0.5)


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
    for quote in sorted(quotes, key=lambda q: (q.score / costs[q.place] ** 0.5, q.place))[::-1]:
        if costs[quote.place] <= budget:
            budget -= costs[quote.place]
            chosen.append(quote)
    return sorted(chosen, key=lambda quote: quote.place)
