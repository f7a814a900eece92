"""The gated delta rule in chunks equals the rule token by token, in double precision."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from ingle.kernels.recurrent.gated_delta import gated_delta_reference

HEADS, KEY, VALUE = 3, 8, 5
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def problem(tokens: int) -> Inputs:
    random = torch.Generator().manual_seed(tokens)
    query, key = (torch.randn(2, tokens, HEADS, KEY, generator=random) for _ in range(2))
    value = torch.randn(2, tokens, HEADS, VALUE, generator=random)
    decay = -torch.rand(2, tokens, HEADS, generator=random) * 3
    rate = torch.rand(2, tokens, HEADS, generator=random)
    return query, key, value, decay, rate


def start() -> torch.Tensor:
    return torch.randn(2, HEADS, KEY, VALUE, generator=torch.Generator().manual_seed(0))


def token_by_token(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    query, key, value, decay, rate = (each.double() for each in inputs)
    query, key = (torch.nn.functional.normalize(each, dim=-1) for each in (query, key))
    state, outputs = start().double(), list[torch.Tensor]()
    for place in range(query.shape[1]):
        q, k, v = query[:, place], key[:, place], value[:, place]
        state = state * decay[:, place].exp()[..., None, None]
        known = (state * k[..., None]).sum(2)
        correction = (v - known) * rate[:, place][..., None]
        state = state + k[..., None] * correction[:, :, None]
        outputs.append((state * q[..., None]).sum(2) * KEY**-0.5)
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("tokens", [1, 2, 63, 64, 65, 200])
def test_chunks_equal_single_tokens(tokens: int) -> None:
    inputs = problem(tokens)
    expected, end = token_by_token(inputs)
    found, state = gated_delta_reference(*inputs, start())
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state.double(), end, rtol=1e-4, atol=1e-5)


def test_state_carries_over_calls() -> None:
    inputs = problem(150)
    expected, end = token_by_token(inputs)
    state, parts = start(), list[torch.Tensor]()
    for first, last in pairwise([0, 1, 2, 90, 91, 150]):
        query, key, value, decay, rate = (each[:, first:last] for each in inputs)
        output, state = gated_delta_reference(query, key, value, decay, rate, state)
        parts.append(output)
    torch.testing.assert_close(torch.cat(parts, 1).double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state.double(), end, rtol=1e-4, atol=1e-5)


def test_strong_decay_does_not_overflow() -> None:
    query, key, value, decay, rate = problem(70)
    found, state = gated_delta_reference(query, key, value, decay * 100, rate, start())
    assert found.isfinite().all()
    assert state.isfinite().all()
