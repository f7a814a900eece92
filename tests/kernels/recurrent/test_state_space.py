"""State spaces in chunks equal the recurrence token by token, in double precision."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from ingle.kernels.recurrent.state_space import state_space_reference

HEADS, GROUPS, SIZE, STATE = 6, 2, 5, 8
DECAY = -torch.linspace(0.1, 8.0, HEADS)
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def problem(tokens: int) -> Inputs:
    random = torch.Generator().manual_seed(tokens)
    x = torch.randn(2, tokens, HEADS, SIZE, generator=random)
    step = torch.rand(2, tokens, HEADS, generator=random)
    write, read = (torch.randn(2, tokens, GROUPS, STATE, generator=random) for _ in range(2))
    return x, step, write, read


def start() -> torch.Tensor:
    return torch.randn(2, HEADS, STATE, SIZE, generator=torch.Generator().manual_seed(0))


def token_by_token(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    x, step, write, read = (each.double() for each in inputs)
    write, read = (each.repeat_interleave(HEADS // GROUPS, 2) for each in (write, read))
    state, outputs = start().double(), list[torch.Tensor]()
    for place in range(x.shape[1]):
        state = state * (step[:, place] * DECAY).exp()[..., None, None]
        written = x[:, place] * step[:, place][..., None]
        state = state + write[:, place][..., None] * written[:, :, None]
        outputs.append((state * read[:, place][..., None]).sum(2))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("tokens", [1, 2, 64, 65, 200])
def test_chunks_equal_single_tokens(tokens: int) -> None:
    inputs = problem(tokens)
    expected, end = token_by_token(inputs)
    x, step, write, read = inputs
    found, state = state_space_reference(x, step, DECAY, write, read, start())
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state.double(), end, rtol=1e-4, atol=1e-5)


def test_state_carries_over_calls() -> None:
    inputs = problem(150)
    expected, end = token_by_token(inputs)
    state, parts = start(), list[torch.Tensor]()
    for first, last in pairwise([0, 1, 2, 90, 91, 150]):
        x, step, write, read = (each[:, first:last] for each in inputs)
        output, state = state_space_reference(x, step, DECAY, write, read, state)
        parts.append(output)
    torch.testing.assert_close(torch.cat(parts, 1).double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state.double(), end, rtol=1e-4, atol=1e-5)
