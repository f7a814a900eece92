"""Finds statements of the user that a later statement corrects, without a model."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .cue_phrases import COMMAND, PASSING, PAST, RULE
from .sentence_splitter import kind_of, stems
from .statement_frames import (
    VALUE,
    StatementFrame,
    are_contrary,
    are_parallel,
    clauses,
    have_contraries,
    same_lead,
    same_unit,
)
from .verbatim_quotes import Quote

RARE = 3
"""A word in at most this many statements with a value of one kind identifies their subject."""
TELLING = 24
"""A word in more statements than this does not identify a subject."""
OLD_WORDS = 3
"""A difference of more words than this is not taken for the old value."""
OWN_WORDS = 5
"""A clause with more own words than this has another subject."""
FOLDED = 2
"""Most earlier values mentioned beside the one that seems valid."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A statement whose value `old` is replaced by a later one.

    If not `sure`, since no word marks it as a correction, both values are kept, but the older one
    is marked as earlier.
    """

    earlier: Quote
    later: Quote
    old: str
    sure: bool


def corrections(quotes: Sequence[Quote]) -> list[Correction]:
    """Return each pair of a statement that is or seems outdated, and one that corrects it."""
    by_word: dict[str, list[Quote]] = {}
    for quote in quotes:
        for word in quote.topic:
            by_word.setdefault(word, []).append(quote)
    counts = Counter(
        (word, kind)
        for quote in quotes
        for word in quote.topic
        for kind in {"", *map(kind_of, quote.keys)}
    )
    found: list[Correction] = []
    for later in quotes:
        # Frequent words identify nothing, and comparing all pairs would take too long.
        telling = [word for word in later.topic if len(by_word[word]) <= TELLING]
        near = {quote.place: quote for word in telling for quote in by_word[word]}
        here: list[Correction] = []
        for place, earlier in sorted(near.items()):
            correction = _compare(earlier, later, counts) if place < later.place else None
            if correction is not None:
                here.append(correction)
        most = max((_in_common(c) for c in here if not c.sure), default=0)
        found += [c for c in here if c.sure or _in_common(c) == most]
    return found


def _in_common(correction: Correction) -> int:
    return len(correction.earlier.topic & correction.later.topic)


def valid_quotes(
    quotes: Sequence[Quote], messages: Collection[str], found: Sequence[Correction]
) -> list[Quote]:
    """Return the quotes from `messages` (ids) that still hold after the corrections `found`.

    An apparently corrected value is mentioned after its correction: small models answer with the
    sentence nearest to the question, whatever comes later.
    """
    gone = {correction.earlier.place for correction in found}
    lost = {correction.earlier.place for correction in found if correction.sure}
    next_of = {correction.earlier.place: correction.later.place for correction in found}
    folds: dict[int, list[Correction]] = {}
    for correction in {c.earlier.place: c for c in found if c.earlier.place not in lost}.values():
        place = correction.later.place
        while place in next_of:  # the correction may itself have been corrected
            place = next_of[place]
        folds.setdefault(place, []).append(correction)
    kept = {quote.place: quote for quote in quotes if quote.place not in gone}
    for place, parts in folds.items():
        # A later statement that is kept verbatim elsewhere takes the place of the earlier.
        here = place if kept[place].message in messages else parts[-1].earlier.place
        kept[here] = _folded(kept[place], parts[-FOLDED:], here)
    places = {quote.place for quote in quotes if quote.message in messages}
    return [quote for place, quote in sorted(kept.items()) if place in places]


def _folded(quote: Quote, parts: Sequence[Correction], place: int) -> Quote:
    things = " and ".join(f"“{_without(part.earlier, part.old)}”" for part in parts)
    before = " and ".join(part.old for part in parts)
    text = f"About {things} the latest is: {quote.text} (It was {before} before.)"
    score = max(quote.score, *(part.earlier.score for part in parts)) + 2.0
    return dataclasses.replace(quote, text=text, place=place, score=score, folded=True)


def _without(quote: Quote, value: str) -> str:
    text = quote.text
    for part in [value] if value in text else value.split(", "):
        text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "…", text, flags=re.IGNORECASE)
    return text


def _compare(earlier: Quote, later: Quote, counts: Counter[tuple[str, str]]) -> Correction | None:
    """Return how a later statement corrects an earlier one, None if it does not."""
    shared = earlier.topic & later.topic
    if not shared or later.text.endswith("?"):
        return None
    old = [key for key in earlier.keys if key not in later.keys]
    new = [key for key in later.keys if key not in earlier.keys]
    if not old and new and len(earlier.keys) == 1:
        old = list(earlier.keys)  # “Marta is ill, so Paolo will be our guide”
    common = {kind_of(key) for key in old} & {kind_of(key) for key in new}
    smaller = min(len(earlier.topic), len(later.topic))
    for value in old:
        kind = kind_of(value)
        if kind not in common:
            continue
        if later.corrects and any(counts[word, kind] <= RARE for word in shared):
            return Correction(earlier, later, value, True)
        # Names are of many kinds: one that is called and one that is booked need not be the same.
        things = shared & StatementFrame.of(earlier.text, value).nouns if kind == "name" else shared
        telling = any(counts[word, kind] <= RARE for word in things)
        others = [key for key in new if kind_of(key) == kind]
        near = len(shared) > 1 and len(shared) >= 0.75 * smaller
        if any(_same_thing(earlier, value, later, key, telling, near) for key in others):
            alike = kind != "name" and any(
                _says_the_same(earlier, value, later, key) for key in others
            )
            return Correction(earlier, later, value, alike)
    if later.corrects and not earlier.keys and any(counts[word, ""] <= RARE for word in shared):
        # A value may be a plain word, as in “the cake should be a walnut cake instead”.
        return Correction(earlier, later, "", True)
    return _plain(earlier, later, counts) if not earlier.keys and not later.keys else None


_PLACED = ("date", "time", "name", "year")
"""Kinds of values for which “on”, “by” and “since” make a difference."""


def _says_the_same(earlier: Quote, old: str, later: Quote, new: str) -> bool:
    """Return whether two clauses differ only in their values."""
    a, b = StatementFrame.around(earlier.text, old), StatementFrame.around(later.text, new)
    return bool(a.content) and a.content == b.content and are_parallel(a, b)


def _same_thing(
    earlier: Quote, old: str, later: Quote, new: str, telling: bool, near: bool
) -> bool:
    """Return whether two values of a kind belong to one subject, by the words around them."""
    a, b = StatementFrame.around(earlier.text, old), StatementFrame.around(later.text, new)
    if not a.content & b.content:  # “…, it is in Oslo”: another clause names the subject
        a, b = StatementFrame.of(earlier.text, old), StatementFrame.of(later.text, new)
    if are_contrary(a, b, events=kind_of(old) in _PLACED) or not same_unit(a, b):
        return False
    if are_parallel(a, b) or near:
        return True
    if not telling or (kind_of(old) in _PLACED and not same_lead(a, b)):
        return False
    if kind_of(old) != "name" or a.stems[:2] == (VALUE, "is"):
        return True  # a name may be anything: a place of living, or a partner
    both_full = " " in old and " " in new
    return bool(a.lead) or both_full or old in later.keys or len(earlier.topic & later.topic) > 1


def _plain(earlier: Quote, later: Quote, counts: Counter[tuple[str, str]]) -> Correction | None:
    """Compare values that are plain words: words only in the earlier statement may be its value."""
    if RULE.search(earlier.text) or COMMAND.search(earlier.text):
        return None
    later_words = stems(later.text)
    a = StatementFrame.of(earlier.text, "")
    for part in clauses(later.text):
        if PASSING.search(part) or PAST.search(part):
            continue
        b = StatementFrame.of(part, "")
        shared = a.content & b.content & earlier.topic & a.nouns
        own = a.content - later_words - a.verbs
        if not 1 <= len(own) <= OLD_WORDS or not 1 <= len(b.content - shared) <= OWN_WORDS:
            continue
        if any(counts[word, ""] <= RARE for word in shared) and not have_contraries(a, b):
            old = ", ".join(a.words[stem] for stem in a.stems if stem in own)
            return Correction(earlier, later, old, False)
    return None
