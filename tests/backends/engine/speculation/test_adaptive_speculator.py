"""`AdaptiveSpeculator`: drafts only when they pay, simulated with step times of real machines."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.backends.base.events import FinishReason
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.adaptive_speculator import AdaptiveSpeculator
from ingle.backends.engine.speculation.draft import Draft
from ingle.backends.engine.speculation.ngram_drafter import NgramDrafter

StepTime = Callable[[int], float]

# Seconds that a proposal takes; a constant, so that a busy machine changes no result.
_PROPOSING = 20e-6
_TWO_CORES = {0: 0, 1: 26, 2: 44, 3: 56, 4: 67, 5: 84, 6: 98, 8: 116, 12: 143, 16: 143, 32: 270}


def two_cores(tokens: int) -> float:
    """Step time in ms of a 1.5B model on a compute-bound CPU with two cores (measured)."""
    below = max(size for size in _TWO_CORES if size <= tokens)
    above = min(size for size in _TWO_CORES if size >= tokens)
    low, high = _TWO_CORES[below], _TWO_CORES[above]
    return (low + (high - low) * (tokens - below) / max(above - below, 1)) / 1000


def wide(tokens: int) -> float:
    """Step time of a GPU, bound by reading the weights."""
    return 0.010 + 0.0002 * tokens


def linear(tokens: int) -> float:
    """The worst case: every token costs as much as the first."""
    return 0.010 * tokens


class Workload:
    """Decodes sequences whose answers are known, and sums up the simulated time."""

    def __init__(self, step_time: StepTime, *, seed: int = 0, noise: float = 0.03) -> None:
        self.speculation = AdaptiveSpeculator(context=8192, ngrams=NgramDrafter(8192))
        self.seconds = 0.0
        self.plain_seconds = 0.0
        self.lengths: list[int] = []
        self.host = 0.0
        self.waited: list[bool] = []
        self._step_time = step_time
        self._noise = noise
        self._random = random.Random(seed)

    @property
    def speed(self) -> float:
        """Return the speedup over decoding without drafts."""
        return self.plain_seconds / self.seconds

    def run(self, *texts: tuple[list[int], list[int]], room: int = 16) -> list[Sequence]:
        """Decode the answers to the prompts, all at once."""
        answers: dict[Sequence, list[int]] = {}
        for prompt, answer in texts:
            sequence = Sequence("r", 0, [*prompt, answer[0]], SamplingParams())
            sequence.prompt_length = len(prompt)
            sequence.max_tokens = len(answer)
            answers[sequence] = answer
        everything, running = list(answers), list(answers)
        self._count_plain([len(answer) for answer in answers.values()])
        while running := [s for s in running if s.num_generated < len(answers[s])]:
            self._step(running, answers, room)
        for sequence in everything:
            sequence.finish_reason = FinishReason.LENGTH
            self.speculation.forget(sequence)
        return everything

    def _step(self, running: list[Sequence], answers: dict[Sequence, list[int]], room: int) -> None:
        drafts = self._drafts(running, room)
        assert sum(map(len, drafts.values())) <= room
        batch = Batch()
        for sequence in running:
            sequence.num_computed = len(sequence.token_ids) - 1
            batch.add(sequence, 1, drafts.get(sequence, ()))
            self.lengths.append(len(drafts.get(sequence, ())))
        seconds = self._step_time(batch.num_tokens)
        self.seconds += seconds
        for chunk in batch.chunks:
            self._verify(chunk.sequence, chunk.drafts, answers[chunk.sequence])
        if self.waited[-1:] == [True]:
            self.seconds += self.host
        noisy = seconds * self._random.uniform(1 - self._noise, 1 + self._noise)
        self.speculation.observe(batch, noisy + _PROPOSING)

    def _drafts(self, running: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        return self.speculation.propose(running, room)

    @staticmethod
    def _verify(sequence: Sequence, drafts: tuple[int, ...], answer: list[int]) -> None:
        for draft in (*drafts, None):
            token = answer[sequence.num_generated]
            sequence.token_ids.append(token)
            if token != draft:
                break
            sequence.accepted_tokens += 1

    def _count_plain(self, lengths: list[int]) -> None:
        for position in range(1, max(lengths)):
            self.plain_seconds += self._step_time(sum(length > position for length in lengths))


class OverlapWorkload(Workload):
    """With overlap: a step that waits for the one before takes `host` longer."""

    def __init__(self, step_time: StepTime, *, host: float, seed: int = 0) -> None:
        super().__init__(step_time, seed=seed)
        self.host = host
        self._guessed = False

    def _drafts(self, running: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        unknown = [sequence.token_ids.pop() for sequence in running]
        waits = self._guessed or self.speculation.waits(running, room)
        for sequence, token in zip(running, unknown, strict=True):
            sequence.token_ids.append(token)
        self.waited.append(waits)
        drafts = super()._drafts(running, room) if waits else {}
        self._guessed = bool(drafts)
        return drafts


def story(length: int, seed: int) -> list[int]:
    """Return text whose words recur, but hardly ever in the same order."""
    rng = random.Random(seed)
    return [int(rng.paretovariate(0.6)) % 3000 for _ in range(length)]


def edit(seed: int, length: int = 300, every: int = 40) -> tuple[list[int], list[int]]:
    """Return a prompt with a text, and an answer that repeats it with a change now and then."""
    original = story(length, seed)
    rng = random.Random(seed + 1)
    changed = [t if rng.randrange(every) else rng.randrange(3000) for t in original]
    return [*original, 5000, 5001], [5002, 5003, *changed]


@pytest.mark.parametrize("step_time", [two_cores, wide, linear])
@pytest.mark.parametrize("seed", range(5))
def test_text_without_repetition_is_not_slowed_down(step_time: StepTime, seed: int) -> None:
    play = Workload(step_time, seed=seed)
    play.run((story(100, seed), story(96, seed + 50)))
    assert play.speed >= 0.97


@pytest.mark.parametrize("step_time", [two_cores, wide])
@pytest.mark.parametrize("seed", range(5))
def test_edits_of_the_prompt_are_sped_up(step_time: StepTime, seed: int) -> None:
    play = Workload(step_time, seed=seed)
    play.run(edit(seed))
    assert play.speed > (1.25 if step_time is two_cores else 3)


def test_no_slowdown_when_verifying_costs_as_much_as_decoding() -> None:
    play = Workload(linear)
    for seed in range(5):
        play.run(edit(seed))
    assert play.speed >= 0.98


def test_many_streams_draft_only_likely_tokens() -> None:
    """Eight streams make steps so expensive that only likely draft tokens are worth their time."""
    play = Workload(two_cores)
    play.run(*((story(100, seed), story(96, seed + 50)) for seed in range(8)))
    assert play.speed >= 0.97


def test_sequences_of_a_batch_share_the_draft_budget() -> None:
    play = Workload(wide)
    sequences = play.run(*(edit(seed) for seed in range(4)))
    assert all(sequence.accepted_tokens > 100 for sequence in sequences)
    assert play.speed > 2


def test_adversarial_text_costs_little() -> None:
    """Every repetition changes just when it has become long enough to be trusted."""
    rng = random.Random(3)
    phrase = [rng.randrange(1000) for _ in range(12)]
    answer: list[int] = []
    for number in range(60):
        answer += [*phrase[: rng.randrange(5, 12)], 2000 + number]
    play = Workload(two_cores)
    play.run((phrase, answer))
    assert play.speed >= 0.97


class OverconfidentDrafter(NgramDrafter):
    """Always certain and always wrong."""

    def propose(self, sequence: Sequence, most: int) -> Draft:
        return Draft([9999] * most, [0.99**length for length in range(1, most + 1)])


@pytest.mark.parametrize("step_time", [two_cores, linear])
def test_overconfident_drafter_costs_little(step_time: StepTime) -> None:
    """A sequence's account uses the accepted drafts, not the drafter's probabilities."""
    play = Workload(step_time)
    play.speculation = AdaptiveSpeculator(context=8192, ngrams=OverconfidentDrafter(8192))
    play.run((story(50, 1), story(200, 2)))
    assert 0.97 <= play.speed < 1
    assert sum(play.lengths) > 0


def test_disabled_speculation_drafts_nothing() -> None:
    speculation = AdaptiveSpeculator(context=512, ngrams=NgramDrafter(512))
    sequence = Sequence("r", 0, [1, 2, 3] * 20, SamplingParams(), speculates=False)
    sequence.num_computed = 59
    batch = Batch()
    batch.add(sequence, 1)
    speculation.observe(batch, 0.01)
    assert speculation.propose([sequence], 8) == {}
    sequence.speculates = True
    assert speculation.propose([sequence], 8)


def test_no_draft_beyond_max_tokens_or_context() -> None:
    """The sampler itself yields one token of `max_tokens`; the context limits drafts likewise."""
    play = Workload(wide)
    loop = [7, 8, 9] * 30
    play.run((loop, loop))
    for max_tokens, context, most in [(1, 512, 0), (2, 512, 1), (None, 64, 3), (None, 61, 0)]:
        speculation = AdaptiveSpeculator(context=context, ngrams=NgramDrafter(512))
        sequence = Sequence("r", 0, [1, 2, 3] * 20, SamplingParams(), max_tokens=max_tokens)
        sequence.num_computed = 59
        batch = Batch()
        batch.add(sequence, 1)
        speculation.observe(batch, 0.01)
        for _ in range(40):  # drafts become longer while they are accepted
            proposed = speculation.propose([sequence], 8)
            assert len(proposed.get(sequence, ())) <= most


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("streams", [1, 4])
def test_overlap_or_drafts_are_chosen_by_the_text(seed: int, streams: int) -> None:
    plain, edits = (OverlapWorkload(wide, host=0.003, seed=seed) for _ in range(2))
    plain.run(*((story(100, seed + i), story(96, seed + 50 + i)) for i in range(streams)))
    assert sum(plain.waited) < 0.25 * len(plain.waited)
    assert plain.speed >= 0.97
    edits.run(*(edit(seed + i) for i in range(streams)))
    assert sum(edits.waited) > 0.5 * len(edits.waited)
    assert edits.speed > (2.4 if streams == 1 else 1.5)


def test_likely_drafts_are_retried_while_steps_overlap() -> None:
    """Drafts looked slow once; without a retry that would never be corrected."""
    play = OverlapWorkload(linear, host=0.0)
    loop = [7, 8, 9, 10, 11] * 60
    play.run((loop, loop))
    assert sum(play.lengths) > 0


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    words=st.integers(1, 40),
    slope=st.floats(0, 1.2),
    streams=st.integers(1, 6),
)
def test_random_text_on_random_machines_is_not_slowed_down(
    seed: int, words: int, slope: float, streams: int
) -> None:
    """Random texts of few words repeat by chance, which misleads the drafter most.

    Of 1,500 such texts of 200 tokens five took more than 5 % longer, the worst 8 %.
    """
    rng = random.Random(seed)
    texts = [
        ([rng.randrange(words) for _ in range(60)], [rng.randrange(words) for _ in range(200)])
        for _ in range(streams)
    ]
    play = Workload(lambda tokens: 0.01 + 0.01 * slope * (tokens - 1), seed=seed)
    play.run(*texts)
    assert play.speed >= 0.9
