"""Speculative decoding in the step loop: drafts change neither text, cells nor counts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.adaptive_speculator import AdaptiveSpeculator
from ingle.backends.engine.speculation.draft import Draft, Speculator
from ingle.backends.engine.speculation.model_drafter import ModelDrafter
from ingle.backends.engine.speculation.ngram_drafter import NgramDrafter
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner

REPLY = "the cat sat on the mat and the cat sat on the hat and " * 6


class DraftRunner(ScriptedModelRunner):
    """A scripted draft model that is sometimes wrong, with varying confidence."""

    def __init__(self, spec: LoadSpec, seed: int, wrong: float) -> None:
        super().__init__(spec)
        self._random = random.Random(seed)
        self._wrong = wrong

    def collect_likeliest(self) -> list[tuple[int, float]]:
        draft: list[tuple[int, float]] = []
        for (token,) in (sampled.token_ids for sampled in self.collect()):
            if self._random.random() < self._wrong:
                token = self._random.randrange(256)
            draft.append((token, self._random.choice([0.2, 0.9, 0.99])))
        return draft


class RandomSpeculator:
    """Proposes right, wrong, long, short and no drafts at random."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        drafts: dict[Sequence, tuple[int, ...]] = {}
        for sequence in decoding:
            length = self._random.randrange(min(room, 12) + 1)
            known = sequence.num_generated
            draft = list(REPLY.encode()[known : known + length])
            if draft and self._random.random() < 0.6:
                draft[self._random.randrange(len(draft))] = self._random.randrange(256)
            room -= len(draft)
            drafts[sequence] = tuple(draft)
        return drafts

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


class AlwaysDrafting(RandomSpeculator):
    """Proposes all tokens of a draft model, whether it pays or not."""

    def __init__(self, seed: int, drafter: ModelDrafter) -> None:
        super().__init__(seed)
        self._drafter = drafter

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        some = [sequence for sequence in decoding if self._random.random() < 0.8]
        ready = [sequence for sequence in some if self._drafter.catch_up(sequence)]
        depth = min(self._random.randrange(6), room // max(len(ready), 1))
        drafts: dict[Sequence, Draft] = self._drafter.draft(ready, depth)
        assert all(len(draft.tokens) <= depth for draft in drafts.values())
        return {sequence: tuple(draft.tokens) for sequence, draft in drafts.items()}

    def forget(self, sequence: Sequence) -> None:
        self._drafter.forget(sequence)


def spec_of(*, context: int = 128, slots: int = 4, batch: int = 24) -> LoadSpec:
    return LoadSpec(
        engine="scripted",
        path="",
        context=context,
        slots=slots,
        batch=batch,
        script=f'{{"reply": "{REPLY}"}}',
    )


def text(sequence: Sequence) -> str:
    return bytes(t for t in sequence.token_ids[sequence.prompt_length :] if t < 256).decode()


Load = list[tuple[int, int, int, int, int | None]]
LOADS = st.lists(
    st.tuples(
        st.integers(0, 60),  # tokens the prompts share
        st.integers(1, 30),  # tokens of its own
        st.integers(1, 80),  # max_tokens
        st.integers(0, 20),  # arrives after this many steps
        st.one_of(st.none(), st.integers(0, 30)),  # cancelled after this many steps
    ),
    min_size=1,
    max_size=7,
)


def run_load(runner: ScriptedModelRunner, speculator: Speculator | None, load: Load) -> Engine:
    """Run the load to completion and check each output against a run alone."""
    engine = Engine(runner, speculator)
    capacity = runner.kv_capacity
    sequences: list[Sequence] = []
    for number, (common, own, max_tokens, _, _) in enumerate(load):
        prompt = [7 * i % 256 for i in range(common)] + [number] * own
        sequences.append(Sequence("r", number, prompt, SamplingParams(), max_tokens=max_tokens))
    for step in range(5000):
        for sequence, (_, _, _, arrival, cancel) in zip(sequences, load, strict=True):
            if step == arrival:
                engine.add(sequence)
            if cancel is not None and step == max(arrival, cancel):
                engine.finish(sequence, FinishReason.CANCELLED)
        if engine.has_work:
            engine.step()
            held = engine.scheduler.kv.used + engine.scheduler.kv.kept
            assert runner.free_cells == capacity - held
        elif all(sequence.finish_reason for sequence in sequences):
            break
    for sequence in sequences:
        assert sequence.finish_reason is not None
        assert REPLY.startswith(text(sequence)) or sequence.token_ids[-1] == 257
        assert 0 <= sequence.accepted_tokens <= sequence.drafted_tokens
        assert sequence.accepted_tokens <= sequence.num_generated
        if sequence.finish_reason is not FinishReason.CANCELLED:
            expected = min(sequence.max_tokens or 0, capacity - sequence.prompt_length)
            assert text(sequence) == REPLY[:expected]
    gauges = engine.gauges()
    assert gauges.kv_used == 0
    assert gauges.drafted_tokens_total == sum(s.drafted_tokens for s in sequences)
    assert gauges.accepted_tokens_total == sum(s.accepted_tokens for s in sequences)
    assert gauges.completion_tokens_total == sum(s.num_generated for s in sequences)
    return engine


@given(load=LOADS, seed=st.integers(0, 2**32), batch=st.integers(1, 40), slots=st.integers(1, 6))
def test_random_drafts_do_not_change_output(load: Load, seed: int, batch: int, slots: int) -> None:
    run_load(ScriptedModelRunner(spec_of(batch=batch, slots=slots)), RandomSpeculator(seed), load)


@settings(deadline=None)
@given(
    load=LOADS,
    seed=st.integers(0, 2**32),
    wrong=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    slots=st.integers(1, 5),
    room=st.integers(40, 128),
)
def test_draft_model_does_not_change_output(
    load: Load, seed: int, wrong: float, slots: int, room: int
) -> None:
    """The scripted caches of both models compare all their tokens in every step."""
    drafts = DraftRunner(spec_of(slots=slots), seed, wrong)
    drafts.lose_cells(128 - room)  # fewer cells than announced: some sequences get no drafts
    drafter = ModelDrafter(drafts)
    run_load(ScriptedModelRunner(spec_of(slots=slots)), AlwaysDrafting(seed, drafter), load)


@settings(deadline=None, max_examples=40)
@given(load=LOADS, seed=st.integers(0, 2**32), wrong=st.sampled_from([0.0, 0.3]))
def test_ngram_and_model_drafts_together_do_not_change_output(
    load: Load, seed: int, wrong: float
) -> None:
    speculation = AdaptiveSpeculator(
        context=128,
        ngrams=NgramDrafter(128),
        model=ModelDrafter(DraftRunner(spec_of(), seed, wrong)),
    )
    run_load(ScriptedModelRunner(spec_of()), speculation, load)


def test_accepted_drafts_save_steps() -> None:
    plain = run_load(ScriptedModelRunner(spec_of()), None, [(0, 20, 60, 0, None)])
    drafter = ModelDrafter(DraftRunner(spec_of(), 1, 0.0))
    drafting = run_load(
        ScriptedModelRunner(spec_of()), AlwaysDrafting(1, drafter), [(0, 20, 60, 0, None)]
    )
    assert drafting.gauges().steps_total < plain.gauges().steps_total * 0.7


def test_runner_that_verifies_one_draft_gets_one() -> None:
    class Narrow(ScriptedModelRunner):
        max_drafts = 1

    drafter = ModelDrafter(DraftRunner(spec_of(), 1, 0.0))
    # Longer than what a draft model reads as part of its first step.
    engine = run_load(Narrow(spec_of()), AlwaysDrafting(1, drafter), [(0, 60, 60, 0, None)])
    gauges = engine.gauges()
    assert 0 < gauges.drafted_tokens_total < gauges.steps_total
    # All are right but one behind the reply's last token.
    assert gauges.accepted_tokens_total >= gauges.drafted_tokens_total - 1


def test_draft_model_reuses_its_cache_for_the_next_turn() -> None:
    """Both models cache the first turn: of a second turn only new tokens are prefilled."""
    runner = DraftRunner(spec_of(), 0, 0.0)
    drafter = ModelDrafter(runner)
    first = Sequence("a", 0, list(range(60)), SamplingParams())
    while not drafter.catch_up(first):
        pass
    assert drafter.draft([first], 3)
    first.token_ids += REPLY.encode()[:2]
    drafter.forget(first)
    second = Sequence("b", 0, [*first.token_ids, 1, 2, 3, 4], SamplingParams())
    assert drafter.lag(second) <= 5
    stranger = Sequence("c", 0, [9] * 60, SamplingParams())
    assert drafter.lag(stranger) == 60


def test_slot_of_the_draft_model_goes_to_the_next_running_sequence() -> None:
    drafter = ModelDrafter(DraftRunner(spec_of(slots=1), 0, 0.0))
    first, second = (Sequence(name, 0, list(range(8)), SamplingParams()) for name in "ab")
    assert drafter.catch_up(first)
    first.slot = 0
    assert not drafter.catch_up(second), "the only slot is used"
    assert drafter.draft([first], 2)
    first.slot = -1
    assert drafter.catch_up(second)
    assert drafter.draft([second], 2)


def test_drafts_of_preempted_sequences_are_not_cached() -> None:
    """Four drafting sequences need more cells than exist."""
    engine = run_load(
        ScriptedModelRunner(spec_of(context=96, slots=4)),
        RandomSpeculator(5),
        [(0, 20, 60, 0, None)] * 4,
    )
    assert engine.scheduler.preemptions > 0
    assert engine.gauges().accepted_tokens_total > 50


@pytest.mark.parametrize("max_tokens", range(1, 12))
def test_drafts_end_at_max_tokens(max_tokens: int) -> None:
    class PerfectSpeculator(RandomSpeculator):
        def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
            known = decoding[0].num_generated
            return {decoding[0]: tuple(REPLY.encode()[known : known + 4])}

    engine = run_load(
        ScriptedModelRunner(spec_of()), PerfectSpeculator(0), [(0, 5, max_tokens, 0, None)]
    )
    assert engine.gauges().completion_tokens_total == max_tokens


def test_no_drafts_during_prefill() -> None:
    asked: list[int] = []

    class RecordingSpeculator(RandomSpeculator):
        def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
            asked.append(len(decoding))
            return {}

    engine = Engine(ScriptedModelRunner(spec_of(batch=16)), RecordingSpeculator(0))
    engine.add(Sequence("a", 0, [1] * 4, SamplingParams(), max_tokens=30))
    engine.step()
    engine.add(Sequence("b", 0, [2] * 60, SamplingParams(), max_tokens=3))
    steps = 0
    while len(engine.scheduler.running) < 2 or engine.scheduler.running[1].num_pending > 1:
        engine.step()
        steps += 1
    assert steps > 2
    assert asked == []
    engine.step()
    assert asked == [2]
