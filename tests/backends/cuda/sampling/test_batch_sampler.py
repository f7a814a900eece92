"""`BatchSampler`: exact distribution, seeds, batch independence, drafts, logprobs, grammars."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.sampling.batch_sampler import BatchSampler
from ingle.backends.engine.batch import Sampled, ScheduledChunk
from ingle.backends.engine.constraint import Constraint
from ingle.backends.engine.logprobs import token_logprobs
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.byte_tokenizer import ByteTokenizer

OFF: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
VOCAB = ByteTokenizer.vocab_size
CPU = torch.device("cpu")

Probabilities = NDArray[np.float64]
DraftRule = Callable[[int], int]


@pytest.fixture
def sampler() -> BatchSampler:
    return BatchSampler(ByteTokenizer(), CPU, room=4096)


def start(prompt: list[int] | None = None, index: int = 0, **fields: Any) -> Sequence:
    values: dict[str, Any] = {**OFF, "seed": 7, **fields}
    return Sequence("r", index, prompt or [1], SamplingParams(**values))


def sample(
    sampler: BatchSampler, chunks: list[ScheduledChunk], logits: torch.Tensor
) -> list[Sampled]:
    return sampler.finish(sampler.launch(chunks, logits))


def random_logits(rows: int, seed: int = 0, vocab: int = VOCAB) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocab, generator=generator) * 3


def chi_square(counts: NDArray[np.int64], chances: Probabilities) -> float:
    """Return Pearson's statistic of all rows, in standard deviations (Wilson and Hilferty 1931)."""
    assert not counts[chances == 0].any(), "an impossible token was sampled"
    expected = counts.sum(axis=-1, keepdims=True) * chances
    tested = expected >= 5
    square = float((((counts - expected) ** 2)[tested] / expected[tested]).sum())
    freedom = int((tested.sum(axis=-1) - 1).clip(min=0).sum())
    assert freedom > 10
    spread = 2 / (9 * freedom)
    return ((square / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"temperature": 0.6}, marks=pytest.mark.slow),
        pytest.param({"top_k": 30}, marks=pytest.mark.slow),
        pytest.param({"top_p": 0.9}, marks=pytest.mark.slow),
        pytest.param({"min_p": 0.01}, marks=pytest.mark.slow),
        {"top_k": 40, "top_p": 0.95, "min_p": 0.005, "temperature": 1.2},
    ],
)
def test_samples_follow_the_exact_distribution(
    sampler: BatchSampler, fields: dict[str, Any]
) -> None:
    logits = random_logits(1)[0] / 3
    sequences = [start(index=index, **fields) for index in range(1000)]
    chunks = [ScheduledChunk(sequence, 1, True) for sequence in sequences]
    counts = np.zeros(VOCAB, np.int64)
    for _ in range(110):
        for sequence, sampled in zip(
            sequences, sample(sampler, chunks, logits.repeat(len(chunks), 1)), strict=True
        ):
            sequence.token_ids += sampled.token_ids
            counts[sampled.token_ids[0]] += 1
    assert counts.sum() >= 100_000
    assert abs(chi_square(counts, exact(logits, **fields))) < 4


def exact(logits: torch.Tensor, **fields: Any) -> Probabilities:
    """Return each token's probability, written out for the `fields` used here."""
    values = {**OFF, **fields}
    x = logits.double().numpy()
    keep = np.ones(len(x), np.bool_)
    order = np.argsort(-x)
    if values["top_k"]:
        keep[order[values["top_k"] :]] = False
    p = np.where(keep, np.exp(x - x.max()), 0)
    p /= p.sum()
    if values["top_p"] < 1:
        before = np.cumsum(p[order]) - p[order]
        keep[order[before >= values["top_p"]]] = False
    keep &= p >= values["min_p"] * p.max()
    weights = np.where(keep, np.exp((x - x.max()) / values["temperature"]), 0)
    return weights / weights.sum()


MIXED: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0, "repeat_penalty": 1.5},
    {},
    {"top_k": 5},
    {"top_k": 200, "top_p": 0.9, "typical_p": 0.9},
    {"top_p": 0.5, "xtc_probability": 0.5},
    {"mirostat": 2},
    {"mirostat": 1, "mirostat_tau": 3.0},
    {"top_k": 40, "dynatemp_range": 0.5, "min_p": 0.01, "frequency_penalty": 1.0},
    {"min_p": 0.05, "top_n_sigma": 2.0, "logit_bias": {4: 3.0}},
]


def test_samples_do_not_depend_on_the_rest_of_the_batch(sampler: BatchSampler) -> None:
    def run(*together: list[int]) -> list[list[int]]:
        """Return the tokens of sequences of all kinds when sampled in these groups."""
        sequences = [start(index=i, **fields) for i, fields in enumerate(MIXED)]
        for step in range(30):
            logits = random_logits(len(MIXED), step)
            for group in together:
                chunks = [ScheduledChunk(sequences[i], 1, True) for i in group]
                for i, sampled in zip(group, sample(sampler, chunks, logits[group]), strict=True):
                    sequences[i].token_ids += sampled.token_ids
        return [sequence.token_ids for sequence in sequences]

    indices = list(range(len(MIXED)))
    alone = run(*([i] for i in indices))
    assert run(indices) == alone
    assert run(indices[::-1]) == alone
    assert run(indices[:3], indices[3:]) == alone


def test_seed_alone_determines_the_samples(sampler: BatchSampler) -> None:
    def text(**fields: Any) -> list[int]:
        sequence = start(**fields)
        for step in range(40):
            chunk = ScheduledChunk(sequence, 1, True)
            sequence.token_ids += sample(sampler, [chunk], random_logits(1, step))[0].token_ids
        return sequence.token_ids[1:]

    first = text()
    assert text() == first
    assert text(index=1) != first
    assert text(seed=6, index=1) == first
    assert text(seed=-1) != first
    assert text(seed=None) != text(seed=None)


def test_sequence_without_seed_keeps_a_random_seed(sampler: BatchSampler) -> None:
    """Sampling the same position again gives the same token until the sequence is forgotten."""
    sequence = start(seed=None)
    logits = torch.zeros(1, VOCAB)

    def samples() -> set[int]:
        chunk = ScheduledChunk(sequence, 1, True)
        return {sample(sampler, [chunk], logits.clone())[0].token_ids[0] for _ in range(5)}

    first = samples()
    assert len(first) == 1
    sampler.forget(sequence)
    others = [samples() for _ in range(3) if sampler.forget(sequence) is None]
    assert any(other != first for other in others)


def follow(
    sampler: BatchSampler,
    transitions: torch.Tensor,
    sequences: list[Sequence],
    draft_rule: DraftRule | None,
    length: int,
    depth: int = 3,
) -> tuple[int, int]:
    """Let each sequence walk through `transitions`; count drafted and accepted tokens."""
    drafted = accepted = 0
    active = list(sequences)
    while active:
        chunks: list[ScheduledChunk] = []
        for sequence in active:
            drafts: list[int] = []
            most = min(depth, length - sequence.num_generated - 1) if draft_rule else 0
            for _ in range(most):
                assert draft_rule is not None
                drafts.append(draft_rule([sequence.token_ids[-1], *drafts][-1]))
            chunks.append(ScheduledChunk(sequence, 1, True, tuple(drafts)))
        rows = [[c.sequence.token_ids[-1], *c.drafts] for c in chunks]
        logits = transitions[torch.tensor([token for row in rows for token in row])]
        for chunk, sampled in zip(chunks, sample(sampler, chunks, logits), strict=True):
            chunk.sequence.token_ids += sampled.token_ids
            drafted += len(chunk.drafts)
            accepted += len(sampled.token_ids) - 1
        active = [sequence for sequence in active if sequence.num_generated < length]
    return drafted, accepted


def markov(tokens: int = 24) -> torch.Tensor:
    """Return logits for the successors of each of the first tokens; other tokens are impossible."""
    transitions = torch.full((tokens, VOCAB), -torch.inf)
    transitions[:, :tokens] = random_logits(tokens, 3, tokens) / 2
    return transitions


DRAFT_RULES: dict[str, tuple[Callable[[torch.Tensor], DraftRule], float, float]] = {
    "likeliest": (lambda t: [int(row.argmax()) for row in t].__getitem__, 0.15, 0.9),
    "unlikeliest": (lambda t: [int(r[6 : len(t)].argmin()) + 6 for r in t].__getitem__, 0.0, 0.1),
    "impossible": (lambda t: lambda last: 5, 0.0, 0.0),
    "constant": (lambda t: lambda last: 8, 0.0, 0.3),
}


@pytest.mark.parametrize(
    "name",
    [
        "likeliest",
        *(pytest.param(name, marks=pytest.mark.slow) for name in list(DRAFT_RULES)[1:]),
    ],
)
def test_drafts_do_not_change_the_distribution(sampler: BatchSampler, name: str) -> None:
    make_rule, low, high = DRAFT_RULES[name]
    transitions = markov()
    transitions[:, 5] = -torch.inf
    draft_rule = make_rule(transitions)
    sequences = [start([6 + i % 16], i, top_k=10, temperature=0.9) for i in range(800)]
    drafted, accepted = follow(sampler, transitions, sequences, draft_rule, 128)
    counts = np.zeros((len(transitions), len(transitions)), np.int64)
    for sequence in sequences:
        np.add.at(counts, (sequence.token_ids[:-1], sequence.token_ids[1:]), 1)
    chances = np.stack([exact(row, top_k=10, temperature=0.9) for row in transitions])
    assert counts.sum() > 100_000
    assert abs(chi_square(counts, chances[:, : len(transitions)])) < 4
    assert low <= accepted / drafted <= high


@pytest.mark.parametrize("fields", MIXED)
def test_drafts_do_not_change_the_sampled_tokens(
    sampler: BatchSampler, fields: dict[str, Any]
) -> None:
    """Penalties and mirostat count accepted draft tokens, and ignore rejected ones."""
    transitions = markov()
    texts: list[list[int]] = []
    rules: list[DraftRule | None] = [
        None,
        [int(row.argmax()) for row in transitions].__getitem__,
        lambda last: (last * 7) % 24,
    ]
    for draft_rule in rules:
        sequence = start([3], **fields)
        follow(sampler, transitions, [sequence], draft_rule, 120)
        sampler.forget(sequence)
        texts.append(sequence.token_ids[:121])
    assert texts[1] == texts[0]
    assert texts[2] == texts[0]


def test_penalty_window_advances_with_accepted_drafts(sampler: BatchSampler) -> None:
    transitions = markov()
    for last_n in (1, 2, 3, 8):
        texts: list[list[int]] = []
        rules: list[DraftRule | None] = [None, lambda last: int(transitions[last].argsort()[-2])]
        for draft_rule in rules:
            sequence = start([3], temperature=0.0, presence_penalty=2.0, repeat_last_n=last_n)
            follow(sampler, transitions, [sequence], draft_rule, 80, depth=5)
            texts.append(sequence.token_ids[:81])
        assert texts[0] == texts[1]


def test_logprobs_are_computed_from_raw_logits(sampler: BatchSampler) -> None:
    logits = random_logits(4, 9)
    chunks = [
        ScheduledChunk(start(), 1, True),
        ScheduledChunk(start(logit_bias={5: 50.0}), 1, True, (5,)),
        ScheduledChunk(start(temperature=0), 1, True),
    ]
    chunks[0].sequence.logprobs, chunks[1].sequence.logprobs = 0, 3
    first, biased, plain = sample(sampler, chunks, logits.clone())
    assert plain.logprobs is None
    assert first.logprobs is not None
    assert biased.logprobs is not None
    assert biased.token_ids[0] == 5
    assert len(biased.logprobs) == len(biased.token_ids) == 2
    found = [*first.logprobs, *biased.logprobs]
    for row, (scored, count) in enumerate(zip(found, (0, 3, 3), strict=True)):
        expected = token_logprobs(logits[row].numpy(), scored.token_id, count)
        assert scored.logprob == pytest.approx(expected.logprob, abs=1e-5)
        assert [token for token, _ in scored.top] == [token for token, _ in expected.top]


def test_launch_does_not_synchronise_with_the_device() -> None:
    """Meta tensors, which cannot be read, stand for a device that is still computing."""
    device = torch.device("meta")
    sampler = BatchSampler(ByteTokenizer(), device, room=4096)
    kinds: list[dict[str, Any]] = [
        *MIXED,
        {"top_k": 50, "xtc_probability": 1.0},
        {"typical_p": 0.5},
    ]
    sequences = [start([5, 6, 5, 6], i, dry_multiplier=1.0, **f) for i, f in enumerate(kinds)]
    for sequence in sequences:
        sequence.token_ids += [5, 6, 7]
        sequence.logprobs = 3
    chunks = [ScheduledChunk(sequence, 1, True, (5, 6)) for sequence in sequences]
    logits = torch.empty(3 * len(chunks), VOCAB, device=device)
    pending = sampler.launch(chunks, logits)
    assert pending.rows.is_meta
    with pytest.raises((RuntimeError, NotImplementedError)):
        sampler.finish(pending)


def test_vocabulary_padding_is_never_sampled(sampler: BatchSampler) -> None:
    logits = torch.zeros(1, VOCAB + 50)
    logits[:, VOCAB:] = 100.0
    for temperature in (0.0, 1.0):
        chunk = ScheduledChunk(start(temperature=temperature), 1, True)
        assert sample(sampler, [chunk], logits.clone())[0].token_ids[0] < VOCAB


def test_ties_go_to_the_lowest_token_id(sampler: BatchSampler) -> None:
    logits = torch.zeros(1, VOCAB)
    chunks = [ScheduledChunk(start(top_k=1, index=i), 1, True) for i in range(5)]
    assert all(s.token_ids == [0] for s in sample(sampler, chunks, logits.repeat(5, 1)))


class SingleTextConstraint(Constraint):
    """Allows one text, then nothing more; counts the consumed tokens."""

    def __init__(self, text: list[int], place: int = 0, *, broken: bool = False) -> None:
        self.text, self.place, self.broken = text, place, broken

    @property
    def complete(self) -> bool:
        return self.place == len(self.text)

    @property
    def error(self) -> str | None:
        return "broken" if self.broken else None

    def allows(self, token_id: int) -> bool:
        return not self.complete and self.text[self.place] == token_id

    def mask(self) -> NDArray[np.bool_]:
        mask = np.zeros(VOCAB, np.bool_)
        if not self.broken and not self.complete:
            mask[self.text[self.place]] = True
        return mask

    def consume(self, token_id: int) -> None:
        assert self.allows(token_id)
        self.place += 1

    def fork(self) -> SingleTextConstraint:
        return SingleTextConstraint(self.text, self.place)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("drafts", "expected", "complete"),
    [
        ((), [65], False),
        ((65, 66), [65, 66, 67], True),
        ((65, 90, 67), [65, 66], False),
        ((90,), [65], False),
        ((65, 66, 67, 68), [65, 66, 67], True),
    ],
)
def test_grammar_masks_every_draft_position(
    sampler: BatchSampler,
    drafts: tuple[int, ...],
    expected: list[int],
    complete: bool,
    temperature: float,
) -> None:
    sequence = start(temperature=temperature)
    sequence.constraint = constraint = SingleTextConstraint([65, 66, 67])
    free = start(index=1, temperature=temperature)
    chunks = [ScheduledChunk(sequence, 1, True, drafts), ScheduledChunk(free, 1, True)]
    logits = random_logits(2 + len(drafts), 4)
    bound, unbound = sample(sampler, chunks, logits.clone())
    assert (bound.token_ids, bound.complete, bound.error) == (expected, complete, None)
    assert constraint.place == len(expected)
    assert unbound == sample(sampler, [ScheduledChunk(free, 1, True)], logits[-1:].clone())[0]


def test_grammar_that_allows_no_token_ends_the_answer(sampler: BatchSampler) -> None:
    sequence = start()
    sequence.constraint = SingleTextConstraint([65], broken=True)
    sampled = sample(sampler, [ScheduledChunk(sequence, 1, True)], random_logits(1))[0]
    assert (sampled.complete, sampled.error) == (True, "broken")
