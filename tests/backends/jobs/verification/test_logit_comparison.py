"""Comparison of two engines' logits: KL divergence, agreement and perplexity, by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ingle.backends.jobs.verification.logit_comparison import Comparison, NotNumbers, Statistics

Rows = Sequence[Sequence[float]]


def compare(logits: Rows, reference: Rows, targets: Sequence[int]) -> Statistics:
    comparison = Comparison()
    comparison.add(np.array(logits, np.float32), np.array(reference, np.float32), np.array(targets))
    return comparison.statistics()


def logs(*probabilities: float) -> list[float]:
    return [math.log(p) for p in probabilities]


def test_divergence_is_from_reference_to_ours() -> None:
    ours, reference = logs(0.25, 0.75), logs(0.5, 0.5)
    forward = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    backward = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert compare([ours], [reference], [0]).mean_kl == pytest.approx(forward, rel=1e-6)
    assert compare([reference], [ours], [0]).mean_kl == pytest.approx(backward, rel=1e-6)


def test_mean_and_extreme_values_over_positions() -> None:
    ours = [logs(0.25, 0.75), logs(0.5, 0.5), logs(0.9, 0.1)]
    reference = [logs(0.5, 0.5), logs(0.5, 0.5), logs(0.6, 0.4)]
    each = [
        0.5 * math.log(2) + 0.5 * math.log(2 / 3),
        0.0,
        0.6 * math.log(6 / 9) + 0.4 * math.log(4),
    ]
    result = compare(ours, reference, [0, 1, 1])
    assert result.tokens == 3
    assert result.mean_kl == pytest.approx(sum(each) / 3, rel=1e-6)
    assert result.max_kl == pytest.approx(max(each), rel=1e-6)
    assert result.p99_kl == pytest.approx(each[0] + 0.98 * (each[2] - each[0]), rel=1e-6)


def test_perplexity_of_the_targets() -> None:
    ours = [logs(0.25, 0.75), logs(0.5, 0.5)]
    reference = [logs(0.5, 0.5), logs(0.2, 0.8)]
    result = compare(ours, reference, [1, 0])
    assert result.perplexity == pytest.approx(1 / math.sqrt(0.75 * 0.5), rel=1e-6)
    assert result.reference_perplexity == pytest.approx(1 / math.sqrt(0.5 * 0.2), rel=1e-6)
    ratio = math.sqrt(0.5 * 0.2 / (0.75 * 0.5))
    assert result.perplexity_difference == pytest.approx(ratio - 1, rel=1e-6)


def test_uniform_logits_have_the_vocabulary_size_as_perplexity() -> None:
    result = compare([[3.0] * 50], [[-7.0] * 50], [17])
    assert result.perplexity == pytest.approx(50)
    assert result.reference_perplexity == pytest.approx(50)
    assert result.mean_kl == 0


def test_first_divergence_of_greedy_choices() -> None:
    reference = [logs(0.7, 0.2, 0.1), logs(0.6, 0.3, 0.1), logs(0.1, 0.2, 0.7)]
    ours = [logs(0.5, 0.3, 0.2), logs(0.3, 0.6, 0.1), logs(0.8, 0.1, 0.1)]
    result = compare(ours, reference, [0, 0, 0])
    assert result.top1_agreement == pytest.approx(1 / 3)
    assert result.first_divergence is not None
    assert result.first_divergence.position == 1
    assert result.first_divergence.token == 1
    assert result.first_divergence.reference_token == 0
    assert result.first_divergence.gap == pytest.approx(math.log(2), rel=1e-6)
    assert result.worst_gap == pytest.approx(math.log(7), rel=1e-6)
    same = compare(reference, reference, [0, 0, 0])
    assert (same.first_divergence, same.worst_gap, same.top1_agreement) == (None, 0, 1)


def test_tokens_impossible_for_the_reference_cost_nothing() -> None:
    result = compare([logs(0.25, 0.25, 0.5)], [[0.0, 0.0, -math.inf]], [0])
    assert result.mean_kl == pytest.approx(math.log(2))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_is_reported_with_its_position(bad: float) -> None:
    fine, broken = [0.0, 1.0], [bad, 1.0]
    comparison = Comparison()
    rows = np.array([fine, fine], np.float32)
    comparison.add(rows, rows, np.array([0, 0]))
    for ours, reference, who in ((broken, fine, "ingle"), (fine, broken, "reference")):
        with pytest.raises(NotNumbers) as caught:
            comparison.add(
                np.array([fine, ours], np.float32),
                np.array([fine, reference], np.float32),
                np.array([0, 0]),
            )
        assert (caught.value.engine, caught.value.position) == (who, 3)


def test_tokens_impossible_only_for_ours_are_an_error() -> None:
    with pytest.raises(NotNumbers, match="ingle, position 0"):
        compare([[0.0, -math.inf]], [[0.0, 0.0]], [0])


_FLOATS = st.floats(-50, 50, width=32)


def matrices(rows: int, columns: int) -> st.SearchStrategy[NDArray[np.float32]]:
    return arrays(np.float32, (rows, columns), elements=_FLOATS)


@given(matrices(5, 7), matrices(5, 7), st.lists(st.integers(0, 6), min_size=5, max_size=5))
def test_chunking_and_constant_offsets_do_not_change_the_result(
    ours: NDArray[np.float32], reference: NDArray[np.float32], targets: list[int]
) -> None:
    whole, parts = Comparison(), Comparison()
    whole.add(ours, reference, np.array(targets))
    for start, end in ((0, 1), (1, 4), (4, 5)):
        # A constant per row does not change the distribution, however large.
        parts.add(
            ours[start:end] + np.float32(4096.0),
            reference[start:end] - np.float32(4096.0),
            np.array(targets[start:end]),
        )
    one, other = whole.statistics(), parts.statistics()
    assert other.tokens == one.tokens
    for name in ("mean_kl", "max_kl"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-2, abs=1e-2)
    assert math.log(other.perplexity) == pytest.approx(math.log(one.perplexity), abs=1e-2)
    assert one.mean_kl >= 0


@given(matrices(3, 11), matrices(3, 11))
def test_result_equals_the_definition_in_float64(
    ours: NDArray[np.float32], reference: NDArray[np.float32]
) -> None:
    result = Comparison()
    result.add(ours, reference, np.zeros(3, np.int64))
    p = np.exp(reference.astype(np.float64))
    q = np.exp(ours.astype(np.float64))
    p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
    expected = np.sum(p * np.log(p / q), axis=1)
    statistics = result.statistics()
    assert statistics.mean_kl == pytest.approx(expected.mean(), rel=1e-9, abs=1e-12)
    assert statistics.max_kl == pytest.approx(expected.max(), rel=1e-9, abs=1e-12)
    assert statistics.perplexity == pytest.approx(np.exp(-np.log(q[:, 0]).mean()), rel=1e-9)


def test_large_vocabulary_is_processed_in_blocks() -> None:
    random = np.random.default_rng(3)
    reference = random.normal(0, 3, (70, 60_000)).astype(np.float32)
    ours = reference + random.normal(0, 0.01, reference.shape).astype(np.float32)
    targets = random.integers(0, 60_000, 70)
    whole, single = Comparison(), Comparison()
    whole.add(ours, reference, targets)
    for row in range(70):
        single.add(ours[row : row + 1], reference[row : row + 1], targets[row : row + 1])
    for name in ("mean_kl", "max_kl", "perplexity", "top1_agreement"):
        one, other = getattr(whole.statistics(), name), getattr(single.statistics(), name)
        assert other == pytest.approx(one, rel=1e-12)
    # Noise of variance v in every logit costs about v / 2.
    assert whole.statistics().mean_kl == pytest.approx(5e-5, rel=0.2)
