from __future__ import annotations

import math

import pytest
import torch

from tests.harness.full_attention import full_attention


def reference_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    window: int | None,
    soft_cap: float | None,
) -> torch.Tensor:
    """Compute attention one query and head at a time, in float64."""
    out = torch.zeros_like(query, dtype=torch.float64)
    tokens, heads, _ = query.shape
    group = heads // key.shape[1]
    for token in range(tokens):
        first = 0 if window is None else max(0, token - window + 1)
        for head in range(heads):
            keys = key[first : token + 1, head // group].double()
            scores = keys @ query[token, head].double() * scale
            if soft_cap is not None:
                scores = soft_cap * torch.tanh(scores / soft_cap)
            out[token, head] = scores.softmax(0) @ value[first : token + 1, head // group].double()
    return out


@pytest.mark.parametrize("window", [None, 1, 5, 300])
@pytest.mark.parametrize("soft_cap", [None, 3.0])
def test_full_attention_equals_the_reference(window: int | None, soft_cap: float | None) -> None:
    tokens = 270 if window == 5 else 20  # more than one chunk of queries
    query, key, value = (torch.randn(tokens, heads, 8) for heads in (6, 2, 2))
    scale = 1 / math.sqrt(8)
    found = full_attention(query, key, value, scale=scale, window=window, soft_cap=soft_cap)
    expected = reference_attention(query, key, value, scale, window, soft_cap)
    assert torch.allclose(found.double(), expected, atol=1e-5)
