"""What is drafted and expected is as recorded: costs, chances, lengths, n-grams and budgets.

A deliberate change is recorded anew: delete `recorded_drafts.txt` and run this file.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.adaptive_speculator import DraftLossBudget
from ingle.backends.engine.speculation.draft import AcceptanceRates, Backoff, Draft
from ingle.backends.engine.speculation.draft_length import DraftLength
from ingle.backends.engine.speculation.ngram_drafter import NgramDrafter
from ingle.backends.engine.speculation.step_costs import StepCosts
from tests.harness.recorded_lines import assert_recorded

RECORDED = Path(__file__).with_name("recorded_drafts.txt")
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)


def shown(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:.4g}" for number in numbers)


def learned(chance: random.Random, sizes: Iterable[int], token: float) -> StepCosts:
    """Costs of steps that take 10 ms, and so much a token."""
    costs = StepCosts()
    for size in sizes:
        for _ in range(chance.randrange(1, 4)):
            costs.observe(size, (0.01 + token * size) * chance.choice([0.9, 1.0, 1.1, 3.0]))
    return costs


def step_costs(chance: random.Random) -> Iterator[str]:
    for count in range(1, 6):
        costs = learned(chance, chance.sample(SIZES, count), chance.choice([0.0002, 0.004]))
        yield shown(costs.seconds(size) for size in range(1, 20))
        costs.observe(4, 0.0)
        costs.observe(5, 0.03)
        yield shown(costs.seconds(size) for size in range(1, 20))


def rates_and_waits(chance: random.Random) -> Iterator[str]:
    rates = AcceptanceRates((0.2, 0.9), weight=4, memory=10)
    for _ in range(12):
        rates.observe(chance.randrange(2), right=chance.random() < 0.6)
        yield shown([rates.chance(0), rates.chance(1), rates.chance(1, 0.5)])
    for wait in (0, 3):
        backoff = Backoff(4, 30, wait=wait)
        asked = [backoff.is_due(only_asks=step % 5 == 0) for step in range(120)]
        yield str([step for step, due in enumerate(asked) if due])


def draft_of(chance: random.Random) -> Draft:
    length = chance.randrange(8)
    chances = [chance.choice([0.6, 0.85, 0.97])]
    while len(chances) < length:
        chances.append(chances[-1] * chance.choice([0.7, 0.9, 0.99]))
    return Draft(list(range(length)), chances[:length])


def lengths(chance: random.Random) -> Iterator[str]:
    for token in (0.0002, 0.002, 0.006, 0.02):
        choice = DraftLength(learned(chance, SIZES, token))
        for _ in range(40):
            drafts = [draft_of(chance) for _ in range(chance.randrange(1, 5))]
            decoding = len(drafts) + chance.randrange(3)
            room, left = chance.choice([0, 2, 5, 16]), chance.choice([0.1, 0.5, 6.0])
            asks = chance.random() < 0.2
            chosen = choice.choose(decoding, drafts, room, [left] * len(drafts), only_asks=asks)
            own = [draft.chances[0] for draft in drafts if draft.chances]
            depth, gain = choice.choose_depth(
                decoding, own, room, lambda depth: 0.001 + 0.0007 * depth
            )
            yield f"{chosen} {depth} {gain:.4g}"


def ngrams(chance: random.Random) -> Iterator[str]:
    for words, length in ((3, 30), (12, 60), (40, 150)):
        phrase = [chance.randrange(words) for _ in range(length // 3)]
        text = phrase + [token if chance.random() < 0.93 else words for token in phrase * 2]
        drafter = NgramDrafter(4096)
        for prompt in (1, 4, length // 3):
            sequence = Sequence("r", 0, text[:prompt], SamplingParams())
            for token in text[prompt:]:
                draft = drafter.propose(sequence, 5)
                yield f"{draft.tokens} {shown(draft.chances)}"
                sequence.token_ids.append(token)
            drafter.forget(sequence)


def budgets(chance: random.Random) -> Iterator[str]:
    budget = DraftLossBudget()
    for most in (1.0, 9.0):
        for _ in range(30):
            budget.accrue()
            budget.witness(right=chance.random() < 0.7)
            yield f"{budget.left:.4g}"
            budget.settle(saved=chance.random() * most, spent=chance.random() * 1.5)


def test_recorded_drafts() -> None:
    chance = random.Random(7)
    parts = (step_costs, rates_and_waits, lengths, ngrams, budgets)
    lines = [line for part in parts for line in (f"# {part.__name__}", *part(chance))]
    assert_recorded(RECORDED, lines)
