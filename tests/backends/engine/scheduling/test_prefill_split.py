from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.scheduling.prefill_budget import split_prefill
from ingle.backends.engine.sequence import Sequence


def make(prompt: int, priority: Priority = Priority.INTERACTIVE, at: float = 0.0) -> Sequence:
    return Sequence("r", 0, [1] * prompt, SamplingParams(), priority=priority, arrived_at=at)


def shares_of(sequences: list[Sequence], budget: int) -> dict[Sequence, int]:
    return split_prefill({sequence: sequence.num_pending for sequence in sequences}, budget)


def test_short_prompt_is_prefilled_before_a_long_one() -> None:
    document, question = make(3000, at=1), make(20, at=2)
    assert shares_of([document, question], 128) == {document: 108, question: 20}


def test_oldest_prompt_gets_a_quarter_of_the_budget() -> None:
    document = make(3000, at=1)
    questions = [make(100, at=2 + i) for i in range(10)]
    shares = shares_of([document, *questions], 128)
    assert shares[document] == 32
    assert sum(shares.values()) == 128


def test_batch_prompts_get_what_interactive_ones_leave() -> None:
    batch, chat = make(500, Priority.BATCH, at=1), make(50, at=2)
    assert shares_of([batch, chat], 64) == {chat: 50, batch: 14}
    assert shares_of([batch, chat], 40) == {chat: 40}


def test_pending_count_limits_a_prompts_share() -> None:
    first, second = make(100, at=1), make(200, at=2)
    assert split_prefill({first: 10, second: 200}, 64) == {first: 10, second: 54}


@given(
    prompts=st.lists(
        st.tuples(st.integers(1, 300), st.sampled_from(Priority), st.integers(0, 5)), max_size=8
    ),
    budget=st.integers(-5, 400),
)
def test_budget_is_used_up_and_not_exceeded(
    prompts: list[tuple[int, Priority, int]], budget: int
) -> None:
    sequences = [make(length, priority, at) for length, priority, at in prompts]
    shares = shares_of(sequences, budget)
    pending = sum(sequence.num_pending for sequence in sequences)
    assert sum(shares.values()) == min(max(budget, 0), pending)
    assert all(0 < count <= sequence.num_pending for sequence, count in shares.items())
    oldest = [s for s in sequences if s.priority is Priority.INTERACTIVE]
    if oldest and budget > 0:
        assert shares[min(oldest, key=lambda s: s.arrived_at)] > 0
