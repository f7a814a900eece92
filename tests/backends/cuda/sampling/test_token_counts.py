from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.sampling.token_counts import GeneratedTokenCounts, TokenOccurrences
from ingle.backends.engine.sequence import Sequence


def as_counter(occurrences: TokenOccurrences) -> Counter[int]:
    assert (
        len(occurrences.tokens) == len(occurrences.counts) == len(set(occurrences.tokens.tolist()))
    )
    return Counter(dict(zip(occurrences.tokens.tolist(), occurrences.counts.tolist(), strict=True)))


def last(tokens: list[int], window: int) -> list[int]:
    return tokens if window < 0 else tokens[max(0, len(tokens) - window) :]


@pytest.mark.parametrize("window", [-1, 1, 2, 7, 100])
@pytest.mark.parametrize("kinds", [2, 12, 500])
def test_counts_cover_the_penalty_window(window: int, kinds: int) -> None:
    """Independent of earlier queries with drafts and tokens in flight."""
    random = np.random.default_rng(kinds)
    sequence, counts = Sequence("r", 0, [1, 1, 1], SamplingParams()), GeneratedTokenCounts(window)
    for _ in range(120):
        answer = sequence.token_ids[3:]
        assert as_counter(counts.of(sequence)) == Counter(last(answer, window))
        drafts = random.integers(0, kinds, random.integers(0, 6)).tolist()
        found = as_counter(counts.with_drafts(sequence, drafts))
        assert found == Counter(last([*answer, *drafts], window))
        kept = last([*answer, -1], window)[:-1]
        assert as_counter(counts.with_awaited(sequence)) == Counter(kept)
        sequence.token_ids += random.integers(0, kinds, random.integers(1, 4)).tolist()


def test_counts_without_generated_tokens() -> None:
    sequence, counts = Sequence("r", 0, [4, 5], SamplingParams()), GeneratedTokenCounts(3)
    assert as_counter(counts.of(sequence)) == as_counter(counts.with_awaited(sequence)) == Counter()
    assert as_counter(counts.with_drafts(sequence, (5, 5))) == Counter({5: 2})
