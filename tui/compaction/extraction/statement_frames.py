"""The words around a value, compared to find statements about the same subject."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Self

from .sentence_splitter import COMMON_WORDS, MEASURES, kind_of, stem, words

VALUE = "\0"
"""Placeholder of the value among the words."""
PARALLEL = 0.6
"""The share of common words from which two frames are parallel."""
_ARTICLES = frozenset(
    "the a an my our your his her their this der die das mein unser le la mon el mi".split()  # noqa: SIM905
)
_CLAUSE = re.compile(
    r"[,;:–—()]|\.{3}|…|(?<!\w)(?:so|and|but|because|while|since|unless|und|aber|weil|sondern)(?!\w)",
    re.IGNORECASE,
)
_LEADS: Mapping[str, str] = {
    word: group
    for group, row in {
        "at": "at on in to near am um im bei nach à au en a para",
        "by": "by until till before bis spätestens avant antes",
        "since": "since from after seit ab depuis desde",
        "with": "with mit avec con",
        "for": "for für pour",
    }.items()
    for word in row.split()
}
"""Words before a value: an exam *on* a day differs from registering *by* a day."""
_CONTRARY = """\
leave/arrive depart/arrive start/end begin/end begin/finish start/finish open/close start/stop
arrive/return leave/return buy/sell lend/borrow wide/deep wide/high wide/long high/deep high/long
long/deep first/last big/small left/right morning/evening breakfast/lunch breakfast/dinner
lunch/dinner"""
_CONTRARIES = frozenset(frozenset(map(stem, pair.split("/"))) for pair in _CONTRARY.split())


@dataclass(frozen=True, slots=True)
class StatementFrame:
    """The stems of a clause in order, with `VALUE` in place of the value.

    `lead` is the kind of word before the value, `unit` the counted noun, both "" for none; `words`
    maps each stem to its written form.
    """

    stems: tuple[str, ...]
    content: frozenset[str]
    lead: str
    unit: str
    words: Mapping[str, str]

    @classmethod
    def around(cls, text: str, value: str) -> Self:
        """Return the frame of the clause with the value."""
        place = text.find(value)
        start, end = 0, len(text)
        for match in _CLAUSE.finditer(text):
            if match.start() >= place + len(value):
                end = match.start()
                break
            if match.end() <= place:
                start = match.end()
        return cls.of(text[start:end], value)

    @property
    def nouns(self) -> frozenset[str]:
        """Return the nouns: words after an article or the like."""
        places = (i for i, word in enumerate(self.stems) if word in _ARTICLES)
        return frozenset(word for i in places for word in self.stems[i + 1 : i + 3])

    @property
    def verbs(self) -> frozenset[str]:
        """Return the verbs: words after a pronoun."""
        pairs = zip(self.stems, self.stems[1:], strict=False)
        return frozenset(word for before, word in pairs if before in _PRONOUNS)

    @classmethod
    def of(cls, text: str, value: str) -> Self:
        """Return the whole text as one frame."""
        masked = text.replace(value, f" {VALUE} ", 1) if value else text
        said: list[str] = []
        for part in masked.split():
            said += [VALUE] if part.startswith(VALUE) else words(part)
        stems = tuple(stem(word) for word in said)
        written = {stem(word): word for word in said if word != VALUE}
        place = stems.index(VALUE) if VALUE in stems else len(stems)
        counted = kind_of(value) == "number"
        before = [word for word in said[:place] if word not in ("the", "a", "room", "about")]
        after = [each for each in stems[place + 1 : place + 2] if counted]
        after = [each for each in after if each not in COMMON_WORDS]
        unit = re.search(r"\d\s?([^\W\d_]+|%|°C?)$", value) if counted else None
        return cls(
            stems,
            frozenset(written) - COMMON_WORDS,
            _LEADS.get(before[-1], "") if before else "",
            unit[1] if unit else "".join(after),
            written,
        )


def clauses(text: str) -> list[str]:
    """Return the clauses of a sentence."""
    return [part for part in _CLAUSE.split(text) if part.strip()]


def are_parallel(a: StatementFrame, b: StatementFrame) -> bool:
    """Return whether two frames have mostly the same words in order."""
    return bool(a.stems) and _match(a, b).ratio() >= PARALLEL


def have_contraries(a: StatementFrame, b: StatementFrame) -> bool:
    """Return whether one has the opposite of a word in the other: “leaves” and “arrives”."""
    here = set(a.stems)
    return any(pair & here and pair - here <= set(b.stems) for pair in _CONTRARIES if pair - here)


def are_contrary(a: StatementFrame, b: StatementFrame, *, events: bool) -> bool:
    """Return whether a differing word makes them two subjects: “the sofa”, “the lamp”.

    With `events`, one may belong to the other: a rehearsal for a concert is not that concert.
    """
    if have_contraries(a, b):
        return True
    if not are_parallel(a, b):
        return False
    counted = a.unit == b.unit and a.unit not in ("", *MEASURES)
    for act, a_from, a_to, b_from, b_to in _match(a, b).get_opcodes():
        mine, others = a.stems[a_from:a_to], b.stems[b_from:b_to]
        content = [set(mine) & a.content - b.content, set(others) & b.content - a.content]
        verbs = (_precedes_value(a, a_to) and _precedes_value(b, b_to)) or _are_done(
            a, a_from, b, b_from
        )
        verbs = verbs or any(word in _PRONOUNS for word in others)
        if act == "replace" and all(content) and not verbs:
            return True
        added, whole = (mine, a) if mine else (others, b)
        if counted or not events:
            continue  # “the list has 26 players”, “the tournament has 22 players”
        if act in ("insert", "delete") and any(content) and _is_attached(added, whole):
            return True
    return False


_PRONOUNS = frozenset(("i", "we", "you", "they", "he", "she", "it", "ich", "wir", "je", "nous"))
_JOINING = frozenset(
    ("for", "of", "to", "with", "from", "in", "at", "von", "für", "zu", "mit", "de")
)
"""Prepositions that attach one noun to another: “the rehearsal for the concert” is not the
concert.
"""


def _are_done(a: StatementFrame, a_place: int, b: StatementFrame, b_place: int) -> bool:
    """Return whether a pronoun precedes both, so that verbs follow."""
    return {*a.stems[max(0, a_place - 1) : a_place], *b.stems[max(0, b_place - 1) : b_place]} <= (
        _PRONOUNS
    ) and bool(a_place and b_place)


def _is_attached(added: tuple[str, ...], frame: StatementFrame) -> bool:
    """Return whether the added words are a noun that another belongs to: “the rehearsal for …”."""
    joints = [index for index, word in enumerate(added) if word in _JOINING]
    things = set(added[: joints[0]]) & frame.nouns if joints else set[str]()
    return bool(things - COMMON_WORDS)


def _precedes_value(frame: StatementFrame, place: int) -> bool:
    """Return whether the value follows, so that the word before it is a verb: it “meets” or
    “sits”.
    """
    rest = [word for word in frame.stems[place:] if word not in ("the", "a", "room")]
    return rest[:1] == [VALUE] or (rest[1:2] == [VALUE] and rest[0] in _LEADS)


def same_lead(a: StatementFrame, b: StatementFrame) -> bool:
    """Return whether the values have the same relation, as far as known."""
    return {a.lead, b.lead} <= {"", "at", "for"} or a.lead == b.lead


def same_unit(a: StatementFrame, b: StatementFrame) -> bool:
    """Return whether the same noun is counted, if both state one."""
    return a.unit == b.unit or ({a.unit, b.unit} <= {"", *MEASURES} and "" in (a.unit, b.unit))


def _match(a: StatementFrame, b: StatementFrame) -> SequenceMatcher[str]:
    return SequenceMatcher(None, a.stems, b.stems, autojunk=False)
