"""Compares two engines' logits: KL divergence, agreement, perplexity."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
"""One row per position, one column per token of the vocabulary."""

_BLOCK_ELEMENTS = 1 << 21
_LARGEST_EXPONENT = 700.0  # largest argument whose exponential is finite


class NotNumbers(Exception):
    """Logits at one position that are not a distribution; `engine` names the engine."""

    def __init__(self, engine: str, position: int) -> None:
        super().__init__(f"{engine}, position {position}")
        self.engine = engine
        self.position = position


class LogitDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """Where two engines would first generate different tokens.

    `position` counts the positions compared before it; `gap` is how much less likely the reference
    finds `token` than its own choice, in nats.
    """

    position: int
    token: int
    reference_token: int
    gap: float


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """How far a distribution q is from a reference p, over `tokens` positions.

    The divergence is KL(p || q) = sum p (ln p - ln q), in nats; `top1_agreement` is the share of
    positions with the same likeliest token; perplexities are of the text, and
    `perplexity_difference` is the first divided by the second, less one. `worst_gap` is the largest
    gap among positions with different likeliest tokens.
    """

    tokens: int
    mean_kl: float
    p99_kl: float
    max_kl: float
    top1_agreement: float
    perplexity: float
    reference_perplexity: float
    perplexity_difference: float
    worst_gap: float
    first_divergence: LogitDivergence | None


class Comparison:
    """Accumulates statistics of two engines' logits, chunk by chunk."""

    def __init__(self) -> None:
        self._kl: list[float] = []
        self._loss = 0.0
        self._reference_loss = 0.0
        self._agreed = 0
        self._worst_gap = 0.0
        self._first: LogitDivergence | None = None

    def add(self, logits: Logits, reference: Logits, next_tokens: NDArray[np.integer]) -> None:
        """Compare the next positions, which `next_tokens` follow; raises `NotNumbers`.

        Both are (positions, vocabulary). A token that the reference rules out may have -inf there.
        """
        assert logits.shape == reference.shape
        assert len(next_tokens) == len(logits)
        rows = max(1, _BLOCK_ELEMENTS // logits.shape[1])  # in float64 a chunk may be gigabytes
        for start in range(0, len(logits), rows):
            block = slice(start, start + rows)
            self._add_block(logits[block], reference[block], next_tokens[block])

    def statistics(self) -> Statistics:
        """Return the statistics so far; at least one position must have been added."""
        count = len(self._kl)
        divergences = np.array(self._kl)
        # Rounding may yield a tiny negative number.
        return Statistics(
            tokens=count,
            mean_kl=max(0.0, float(divergences.mean())),
            p99_kl=max(0.0, float(np.quantile(divergences, 0.99))),
            max_kl=max(0.0, float(divergences.max())),
            top1_agreement=self._agreed / count,
            perplexity=_exponential(self._loss / count),
            reference_perplexity=_exponential(self._reference_loss / count),
            perplexity_difference=_exponential((self._loss - self._reference_loss) / count) - 1,
            worst_gap=self._worst_gap,
            first_divergence=self._first,
        )

    def _add_block(self, logits: Logits, reference: Logits, targets: NDArray[np.integer]) -> None:
        position = len(self._kl)
        log_q = _log_softmax(logits, "ingle", position)
        log_p = _log_softmax(reference, "reference", position)
        p = np.exp(log_p)
        divergences = np.sum(p * np.where(p > 0, log_p - log_q, 0.0), axis=1)
        # the engine rules out a token that the reference allows
        if not np.isfinite(divergences).all():
            raise NotNumbers("ingle", position + int(np.argmin(np.isfinite(divergences))))
        rows = np.arange(len(targets))
        self._loss -= float(log_q[rows, targets].sum())
        self._reference_loss -= float(log_p[rows, targets].sum())
        choices, reference_choices = log_q.argmax(axis=1), log_p.argmax(axis=1)
        gaps = log_p[rows, reference_choices] - log_p[rows, choices]
        self._note_choices(choices, reference_choices, gaps)
        self._kl.extend(divergences.tolist())

    def _note_choices(
        self,
        choices: NDArray[np.intp],
        reference_choices: NDArray[np.intp],
        gaps: NDArray[np.float64],
    ) -> None:
        differ = np.flatnonzero(choices != reference_choices)
        self._agreed += len(choices) - len(differ)
        self._worst_gap = max(self._worst_gap, float(gaps.max()))
        if self._first is None and len(differ):
            row = int(differ[0])
            self._first = LogitDivergence(
                position=len(self._kl) + row,
                token=int(choices[row]),
                reference_token=int(reference_choices[row]),
                gap=float(gaps[row]),
            )


def _log_softmax(logits: Logits, engine: str, position: int) -> NDArray[np.float64]:
    """Return log probabilities, row by row, in float64."""
    largest = logits.max(axis=1, keepdims=True)  # the maximum of a row with a NaN is NaN
    if not np.isfinite(largest).all():
        raise NotNumbers(engine, position + int(np.argmin(np.isfinite(largest))))
    shifted = logits.astype(np.float64) - largest
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _exponential(value: float) -> float:
    return math.exp(min(value, _LARGEST_EXPONENT))
