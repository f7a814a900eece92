"""Tolerances: which statistics pass verification."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ingle.backends.jobs.verification.logit_comparison import Statistics
from ingle.backends.jobs.verification.tolerances import ReferenceEngine, exceeded, limits_for

GOOD = Statistics(
    tokens=2000,
    mean_kl=9e-5,
    p99_kl=1e-3,
    max_kl=1e-2,
    top1_agreement=0.996,
    perplexity=10.01,
    reference_perplexity=10.0,
    perplexity_difference=1e-3,
    worst_gap=0.01,
    first_divergence=None,
)


@pytest.mark.parametrize("against", list(ReferenceEngine))
@pytest.mark.parametrize("quantized", [True, False])
def test_good_statistics_pass_every_tolerance(against: ReferenceEngine, quantized: bool) -> None:
    assert exceeded(GOOD, limits_for(against, quantized=quantized)) == []


@pytest.mark.parametrize(
    ("against", "quantized", "mean_kl", "top1"),
    [
        (ReferenceEngine.LLAMA_CPP, True, 5e-3, 0.95),
        (ReferenceEngine.LLAMA_CPP, False, 1e-4, 0.95),
        (ReferenceEngine.TRANSFORMERS, True, 1e-4, 0.995),
        (ReferenceEngine.TRANSFORMERS, False, 1e-4, 0.995),
    ],
)
def test_exceeding_any_limit_fails(
    against: ReferenceEngine, quantized: bool, mean_kl: float, top1: float
) -> None:
    limits = limits_for(against, quantized=quantized)

    def failures(**changes: Any) -> list[str]:
        return exceeded(msgspec.structs.replace(GOOD, **changes), limits)

    assert failures(mean_kl=mean_kl) == []
    assert failures(mean_kl=mean_kl * 1.01) == ["mean_kl"]
    assert failures(top1_agreement=top1) == []
    assert failures(top1_agreement=top1 - 0.001) == ["top1_agreement"]
    for sign in (1, -1):
        assert failures(perplexity_difference=sign * 0.005) == []
        assert failures(perplexity_difference=sign * 0.0051) == ["perplexity_difference"]
