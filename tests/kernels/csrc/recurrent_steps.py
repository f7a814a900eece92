"""Steps of several sequences for recurrent kernels, and what all such kernels have to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.activations import ActivationForms, q8_groups, quantize_q8_reference
from ingle.kernels.recurrent.pooled_states import PooledStates, StepRows

MakeLibrary = Callable[..., CPUKernelLibrary]
BOTH = ActivationForms(torch.float32, tiles=True)

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


def check_mixed_steps(kernels: Any, reference: Any, x: Any, shape: Any, weights: Any) -> None:
    """Compare the outputs, and the states of each row, with those of plain torch."""
    states, steps = random_states(shape.state_shapes), mixed_steps()
    ours, plain = (PooledStates(tuple(part.clone() for part in states), steps) for _ in range(2))
    found, expected = kernels(x, shape, weights, ours, BOTH), reference(x, shape, weights, plain)
    assert found.dense is not None
    assert found.tiles is not None
    # The last token belongs to no sequence: what is there is undefined.
    assert error(found.dense[:19], expected[:19]) < 1e-5
    width = found.dense.shape[1]
    tiles = q8_groups(quantize_q8_reference(found.dense), width)
    assert torch.equal(q8_groups(found.tiles, width)[:19], tiles[:19])
    for one, other, before in zip(ours.states, plain.states, states, strict=True):
        assert error(one, other) < 1e-5
        for row in UNTOUCHED:
            assert torch.equal(one[row], before[row])


def check_one_by_one(kernels: Any, inputs: Any, shape: Any, weights: Any) -> None:
    """Compute 19 tokens at once and in parts, which leave the same bits.

    So prefixes, drafts and what is restored are exact, however steps divide a text.
    """
    states = random_states(shape.state_shapes)

    def run(start: int, end: int, target: int) -> torch.Tensor:
        x = type(inputs)(*(part[start:end] for part in inputs))
        steps = steps_of(
            [0, end - start], [target if start else -1], [0, 1], [end - start], [target]
        )
        found = kernels(x, shape, weights, PooledStates(states, steps), BOTH).dense
        assert found is not None
        return found

    together = run(0, 19, 0)
    apart = torch.cat([run(0, 5, 1), *(run(place, place + 1, 1) for place in range(5, 19))])
    assert torch.equal(apart, together)
    for part in states:
        assert torch.equal(part[0], part[1])


def check_refused(kernels: Any, wrong: Any, x: Any, shape: Any, weights: Any) -> None:
    """Inputs that are `wrong` do not fit, and there are no kernels for the last `shape`."""
    known, unknown = shape
    rows = PooledStates(random_states(known.state_shapes), steps_of([0, 1], [-1], [0, 0], [], []))
    with pytest.raises(ValueError, match="do not fit"):
        kernels(wrong, known, weights, rows, BOTH)
    with pytest.raises(ValueError, match="no kernels"):
        kernels(x, unknown, weights, rows, BOTH)


def check_without(
    kernel: str, failures: Callable[[], Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> str:
    """Return the last failure that a check finds if one kernel is not launched."""
    assert not failures()
    launch = CPUKernelLibrary.launch

    def leave_out(self: CPUKernelLibrary, source: str, name: str, *rest: object) -> None:
        if name != kernel:
            launch(self, source, name, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(CPUKernelLibrary, "launch", leave_out)
    return failures()[-1]
