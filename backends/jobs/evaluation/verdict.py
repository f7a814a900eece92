"""Turns evaluation results into a verdict that allows for the number of prompts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .messages import EvaluationReport, Interval, PromptResult

_RESAMPLINGS = 2000
_FEWEST = 2
_SURPRISING = 0.2
"""A token with this much less probability than the fuller model's own is not sampling noise."""
_VERDICTS = (
    (0.01, "practically the same"),
    (0.05, "nearly the same: now and then other words with the same meaning"),
    (0.15, "noticeably different: expect different answers to hard questions"),
    (math.inf, "a different model: use a fuller one if answers have to be right"),
)
"""By the upper bound of the mean divergence, in nats per token: 0.01 is the loss of eight bits,
0.05 of about four and a half, 0.15 of three, on models of a few billion weights.
"""


def judge(
    results: Sequence[PromptResult],
    certainties: Sequence[float],
    seconds: float,
    fuller_seconds: float,
) -> EvaluationReport:
    """Summarise at least one result; prompts are resampled, weighted by their tokens."""
    counts = np.array([result.statistics.tokens for result in results], np.float64)
    kl = _interval([result.statistics.mean_kl for result in results], counts)
    agreement = _interval([result.statistics.top1_agreement for result in results], counts)
    partings = [result.parting for result in results if result.parting is not None]
    return EvaluationReport(
        results=list(results),
        tokens=int(counts.sum()),
        kl=kl,
        agreement=agreement,
        perplexity=_perplexity([r.statistics.perplexity for r in results], counts),
        fuller_perplexity=_perplexity([r.statistics.reference_perplexity for r in results], counts),
        self_agreement=float(np.mean(certainties)),
        partings=len(partings),
        surprising_partings=sum(p.likely < _SURPRISING * p.likeliest for p in partings),
        verdict=_verdict(kl, len(results)),
        seconds=seconds,
        fuller_seconds=fuller_seconds,
    )


def _verdict(kl: Interval, prompts: int) -> str:
    if prompts < _FEWEST:  # one prompt has no spread to measure
        return "one prompt is too few to tell: add more prompts"
    return next(words for limit, words in _VERDICTS if kl.high < limit or limit == math.inf)


def _interval(values: Sequence[float], counts: NDArray[np.float64]) -> Interval:
    means = np.array(values)
    draws = np.random.default_rng(0).integers(len(means), size=(_RESAMPLINGS, len(means)))
    sums = (means * counts)[draws].sum(axis=1) / counts[draws].sum(axis=1)
    low, high = np.quantile(sums, (0.025, 0.975))
    return Interval(float((means * counts).sum() / counts.sum()), float(low), float(high))


def _perplexity(values: Sequence[float], counts: NDArray[np.float64]) -> float:
    return float(np.exp((np.log(values) * counts).sum() / counts.sum()))
