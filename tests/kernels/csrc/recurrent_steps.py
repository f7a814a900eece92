"""Steps of several sequences for recurrent kernels, and how far off results are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ingle.kernels.recurrent.pooled_states import StepRows

TOKENS, ROWS = 20, 7
UNTOUCHED = (3, 5)
"""Rows of the pool that `mixed_steps` leave alone."""


def steps_of(*numbers: list[int]) -> StepRows:
    """Return the table of a step."""
    return StepRows(*(torch.tensor(each, dtype=torch.int32) for each in numbers))


def mixed_steps() -> StepRows:
    """One sequence from nothing, with snapshots; one of a token, whose row is overwritten; two of
    none. The last token belongs to no sequence.
    """
    return steps_of(
        [0, 0, 18, 19, 19], [5, -1, 2, 3], [0, 1, 5, 6, 7], [1, 3, 16, 18, 18, 1, 1],
        [5, 0, 1, 6, 4, 2, 3],
    )  # fmt: skip


def random_states(shapes: Sequence[tuple[int, ...]]) -> tuple[torch.Tensor, ...]:
    """Return rows of states of these shapes."""
    return tuple(torch.randn(ROWS, *shape) for shape in shapes)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the relative error in the Euclidean norm; NaN if a value is missing."""
    return float(((found.double() - expected) ** 2).sum().sqrt() / (expected**2).sum().sqrt())
