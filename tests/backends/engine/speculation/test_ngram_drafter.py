"""`NgramDrafter`: draft tokens by n-gram lookup in the sequence, and their probabilities."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.ngram_drafter import NgramDrafter


def sequence_of(tokens: list[int]) -> Sequence:
    return Sequence("r", 0, list(tokens), SamplingParams())


def draft_tokens(tokens: list[int], most: int = 8) -> list[int]:
    return NgramDrafter(256).propose(sequence_of(tokens), most).tokens


def test_draft_continues_an_earlier_match() -> None:
    assert draft_tokens([1, 2, 3, 4, 5, 6, 7, 1, 2, 3], 3) == [4, 5, 6]
    assert draft_tokens([1, 2, 3, 4, 5]) == []
    assert draft_tokens([]) == draft_tokens([1]) == draft_tokens([1, 1]) == []


def test_longest_then_latest_match_is_used() -> None:
    longest = [9, 1, 2, 3, 50, 8, 7, 2, 3, 60, 9, 1, 2, 3]
    assert draft_tokens(longest, 1) == [50]
    latest = [1, 2, 50, 8, 1, 2, 60, 7, 1, 2]
    assert draft_tokens(latest, 1) == [60]


def test_draft_repeats_a_loop() -> None:
    assert draft_tokens([1, 2, 3] * 4, 7) == [1, 2, 3, 1, 2, 3, 1]
    assert draft_tokens([5] * 6, 4) == [5, 5, 5, 5]


def test_long_match_is_continued_despite_later_short_matches() -> None:
    """A phrase of the copied text that also occurs after it does not end the match."""
    text = [*range(100, 120), 1, 2, 3, 4, 77, 78]
    detour = [1, 2, 3, 4, 66]
    drafter = NgramDrafter(256)
    sequence = sequence_of([*text, *detour, *text[:6]])
    draft = drafter.propose(sequence, 1)
    for token in text[6:24]:
        sequence.token_ids.append(token)
        draft = drafter.propose(sequence, 1)
    assert draft.tokens == [77]


def test_chances_fall_along_a_draft_and_rise_with_acceptance() -> None:
    drafter = NgramDrafter(512)
    story = list(range(1000, 1200))
    sequence = sequence_of([*story, 1000, 1001])
    first = later = drafter.propose(sequence, 16)
    assert first.chances == sorted(first.chances, reverse=True)
    for token in story[2:60]:
        sequence.token_ids.append(token)
        later = drafter.propose(sequence, 16)
    assert later.tokens == story[60:76]
    assert later.chances[0] > 0.9 > first.chances[0]
    assert later.chances[-1] > 0.3


def test_chances_fall_when_drafts_keep_failing() -> None:
    drafter = NgramDrafter(1024)
    sequence = sequence_of([1, 2])
    chances: list[float] = []
    for number in range(60):
        sequence.token_ids += [1000 + number, 1, 2]
        draft = drafter.propose(sequence, 4)
        chances += draft.chances[:1]
    assert chances[-1] < chances[0] / 2


def test_other_sequences_lower_but_do_not_raise_first_chances() -> None:
    def first_chance(drafter: NgramDrafter) -> float:
        return drafter.propose(sequence_of([1, 2, 3, 4, 5, 6, 7, 1, 2, 3]), 1).chances[0]

    def read(drafter: NgramDrafter, *, repeats: bool) -> None:
        phrase = [*range(100, 110)]
        sequence = sequence_of(phrase)
        for number in range(60):
            for token in [*phrase[:3], phrase[3] if repeats else 1000 + number]:
                drafter.propose(sequence, 1)
                sequence.token_ids.append(token)
        drafter.forget(sequence)

    usual = first_chance(NgramDrafter(1024))
    good, bad = NgramDrafter(1024), NgramDrafter(1024)
    read(good, repeats=True)
    read(bad, repeats=False)
    assert first_chance(bad) < usual * 0.7
    assert first_chance(good) <= usual


TOKENS = st.lists(st.integers(0, 3), max_size=120)


@given(prompt=TOKENS, answer=TOKENS, most=st.integers(0, 20), skip=st.integers(1, 5))
def test_every_draft_token_is_copied_from_the_text(
    prompt: list[int], answer: list[int], most: int, skip: int
) -> None:
    """Drafts occur after an earlier copy of the last two tokens, whatever the steps."""
    drafter = NgramDrafter(64)
    sequence = sequence_of(prompt)
    for number, token in enumerate(answer):
        sequence.token_ids.append(token)
        if number % skip:
            continue
        draft = drafter.propose(sequence, most)
        assert len(draft.tokens) == len(draft.chances) <= most
        assert all(0 < chance < 1 for chance in draft.chances)
        if draft.tokens:
            known = sequence.token_ids
            assert any(
                known[end - 2 : end] == known[-2:]
                and (known + draft.tokens)[end : end + len(draft.tokens)] == draft.tokens
                for end in range(2, len(known))
            )


@given(prompt=TOKENS, answer=TOKENS)
def test_bulk_and_incremental_indexing_agree(prompt: list[int], answer: list[int]) -> None:
    """Indexing a whole prompt yields the same drafts as token by token, except for the rates."""
    tokens = [*prompt, *answer]
    whole = NgramDrafter(1024).propose(sequence_of(tokens), 4)
    drafter, growing = NgramDrafter(1024), sequence_of(tokens[:1])
    draft = drafter.propose(growing, 4)
    for token in tokens[1:]:
        growing.token_ids.append(token)
        draft = drafter.propose(growing, 4)
    assert bool(whole.tokens) <= bool(draft.tokens)


def test_long_prompt_is_indexed_fast_enough() -> None:
    prompt = [number * 7919 % 50_000 for number in range(30_000)]
    drafter = NgramDrafter(32_768)
    draft = drafter.propose(sequence_of([*prompt, *prompt[20_000:20_010]]), 5)
    assert draft.tokens == prompt[20_010:20_015]
