"""Generates a chat from a seed: facts of all classes among small talk, with questions about
them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from compaction_cases.slots import Kind, Slot
from compaction_cases.small_talk import ANSWERS, CHATTER, NODS, OPENINGS, PROMPTS

COUNTS: dict[Kind, int] = {
    "name": 5,
    "number": 5,
    "date": 4,
    "code": 5,
    "preference": 4,
    "rule": 3,
    "decision": 4,
    "correction": 10,
    "open": 3,
    "never said": 2,
}
"""Forty-five questions."""
LATE = 2
"""This many corrections come before the second compaction, and as many before the third."""
CHARACTERS_A_TOKEN = 4.6
"""Of such texts, about; the true sizes are counted by the daemon."""


@dataclass
class Fact:
    """A fact that was stated or not; `stale` is its value before a correction."""

    kind: Kind
    ask: str
    value: str
    stale: str = ""
    late: int = 0
    """Only before this round's compaction is it corrected."""
    before: str = ""
    """The sentence with the old value."""


@dataclass
class Turn:
    """A prompt with its answer, and the facts it states."""

    prompt: str
    answer: str


@dataclass
class MadeChat:
    """Turns with facts in them, and more turns for later rounds, with late corrections."""

    turns: list[Turn]
    facts: list[Fact]
    rounds: list[list[Turn]]
    next_answers: list[Turn]
    """Turns whose answers use facts, for measuring surprise."""


def make_chat(seed: int, slots: Sequence[Slot], *, tokens: int, rounds: int = 4) -> MadeChat:
    """About `tokens` tokens, then `rounds` pieces of a quarter of that."""
    rng = random.Random(seed)
    facts, sentences, late = _facts(rng, slots)
    turns = _turns(rng, sentences, round(tokens * CHARACTERS_A_TOKEN))
    piece = round(tokens * CHARACTERS_A_TOKEN / 4)
    later = [_turns(rng, [[said] for said in told], piece) for told in (late[:LATE], late[LATE:])]
    more = [_turns(rng, [], piece) for _ in range(max(0, rounds - len(later)))]
    return MadeChat(turns, facts, [*later, *more][:rounds], _next_answers(rng, facts))


def _facts(
    rng: random.Random, slots: Sequence[Slot]
) -> tuple[list[Fact], list[list[str]], list[str]]:
    """Return the facts, the groups of sentences that state them in order, and the late ones."""
    facts: list[Fact] = []
    groups: list[list[str]] = []
    late: list[str] = []
    for kind, count in COUNTS.items():
        for slot in rng.sample([slot for slot in slots if slot.kind == kind], count):
            fact = Fact(kind, slot.ask, "-")
            facts.append(fact)
            if kind == "never said":
                continue
            fact.value, other = rng.sample(slot.values, 2)
            first = rng.choice(slot.say)
            if kind != "correction":
                groups.append([_put(first, fact.value)])
                continue
            fact.stale, fact.before = other, _put(first, other)
            correction = _put(rng.choice(slot.correct), fact.value)
            if len(late) < 2 * LATE:  # stated only after the first or the second compaction
                fact.late = 2 + len(late) // LATE
                late.append(correction)
                groups.append([_put(first, other)])
            else:
                groups.append([_put(first, other), correction])
    return facts, groups, late


def _put(phrasing: str, value: str) -> str:
    said = phrasing.replace("{}", value.split("|")[0])
    return said[0].upper() + said[1:]


def _turns(rng: random.Random, groups: list[list[str]], characters: int) -> list[Turn]:
    """Turns of about so many characters with all sentences in them, groups in their order."""
    order = _shuffled(rng, groups)
    prompts = rng.sample(PROMPTS, len(PROMPTS)) * 8
    room = max(characters - sum(map(len, order)), 1)
    count = max(2, round(room / 560), (len(order) + 1) // 2)
    places = sorted(rng.randrange(count) for _ in order)
    chattering = rng.sample(CHATTER, len(CHATTER)) * 8
    turns: list[Turn] = []
    for index in range(count):
        told = [s for s, place in zip(order, places, strict=True) if place == index]
        said = " ".join([rng.choice(OPENINGS) + s for s in told])
        if rng.random() < 0.6:
            chatter = chattering.pop()
            said = f"{said} {chatter}" if rng.random() < 0.5 else f"{chatter} {said}"
        question = prompts[index]
        parts = [said, question] if rng.random() < 0.6 else [question, said]
        answer = rng.sample(ANSWERS, rng.choice((6, 7, 8, 9)))
        if told:
            answer.insert(0, rng.choice(NODS))
        turns.append(Turn(" ".join(" ".join(parts).split()), " ".join(answer)))
    return turns


def _shuffled(rng: random.Random, groups: list[list[str]]) -> list[str]:
    """All sentences in a random order that keeps each group's own."""
    names = [index for index, group in enumerate(groups) for _ in group]
    rng.shuffle(names)
    waiting = [list(group) for group in groups]
    return [waiting[name].pop(0) for name in names]


def _next_answers(rng: random.Random, facts: Sequence[Fact]) -> list[Turn]:
    """Questions about facts of the first part, with the answers a good assistant gives."""
    known = [fact for fact in facts if fact.kind not in ("never said", "correction")]
    return [
        Turn(fact.ask, f"{fact.value.split('|')[0][0].upper()}{fact.value.split('|')[0][1:]}.")
        for fact in rng.sample(known, 12)
    ]
