"""Corrections: which of the user's statements a later one takes the place of, without a model."""

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
"""In so many statements with a value of the same kind at most is a word that tells their thing."""
TELLING = 24
"""In more statements than these a word does not tell what they are about."""
OLD_WORDS = 3
"""Where more words of a statement may be its value, none is taken for it."""
OWN_WORDS = 5
"""A clause with more words of its own than these tells something else."""
FOLDED = 2
"""So many earlier values at most are told beside the one that seems to hold."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A statement whose value `old` a later one gives anew.

    When not `sure`, since no word says that it is a correction, both values are told further on,
    but no longer side by side as if both held.
    """

    earlier: Quote
    later: Quote
    old: str
    sure: bool


def corrections(quotes: Sequence[Quote]) -> list[Correction]:
    """Each statement that no longer holds, or seems not to, with each that corrects it."""
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
        # Words that many sentences have tell nothing, and looking at all pairs would take long.
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


def standing(
    quotes: Sequence[Quote], told: Collection[str], found: Sequence[Correction]
) -> list[Quote]:
    """The quotes from the messages `told` that still hold after the corrections `found`, in order.

    What seems to be corrected is told behind what corrects it, as its earlier value: small models
    answer with the sentence that is nearest to the question, whatever comes later.
    """
    gone = {correction.earlier.place for correction in found}
    lost = {correction.earlier.place for correction in found if correction.sure}
    next_of = {correction.earlier.place: correction.later.place for correction in found}
    folds: dict[int, list[Correction]] = {}
    for correction in {c.earlier.place: c for c in found if c.earlier.place not in lost}.values():
        place = correction.later.place
        while place in next_of:  # what corrects it may have been corrected in its turn
            place = next_of[place]
        folds.setdefault(place, []).append(correction)
    kept = {quote.place: quote for quote in quotes if quote.place not in gone}
    for place, parts in folds.items():
        # Where the later one stays word for word by itself, it is told in the place of the earlier.
        here = place if kept[place].message in told else parts[-1].earlier.place
        kept[here] = _folded(kept[place], parts[-FOLDED:], here)
    places = {quote.place for quote in quotes if quote.message in told}
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
    """How a later statement bears on an earlier one."""
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
        # Names are of many kinds: that somebody is called and something booked is not enough.
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
"""With these it matters whether something is “on” a day, “by” it, or “since” then."""


def _says_the_same(earlier: Quote, old: str, later: Quote, new: str) -> bool:
    """Whether two clauses differ in nothing but their values."""
    a, b = StatementFrame.around(earlier.text, old), StatementFrame.around(later.text, new)
    return bool(a.content) and a.content == b.content and are_parallel(a, b)


def _same_thing(
    earlier: Quote, old: str, later: Quote, new: str, telling: bool, near: bool
) -> bool:
    """Whether two values of a kind are of one thing, by the words around them."""
    a, b = StatementFrame.around(earlier.text, old), StatementFrame.around(later.text, new)
    if not a.content & b.content:  # “…, it is in Oslo”: the thing is named in another clause
        a, b = StatementFrame.of(earlier.text, old), StatementFrame.of(later.text, new)
    if are_contrary(a, b, events=kind_of(old) in _PLACED) or not same_unit(a, b):
        return False
    if are_parallel(a, b) or near:
        return True
    if not telling or (kind_of(old) in _PLACED and not same_lead(a, b)):
        return False
    if kind_of(old) != "name" or a.stems[:2] == (VALUE, "is"):
        return True  # a name may be anything: where somebody lives, or who they live with
    both_full = " " in old and " " in new
    return bool(a.lead) or both_full or old in later.keys or len(earlier.topic & later.topic) > 1


def _plain(earlier: Quote, later: Quote, counts: Counter[tuple[str, str]]) -> Correction | None:
    """For values that are plain words: what only the earlier one has may be its value."""
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
