"""Linear attention in chunks: sums of values by keys that decay from token to token."""

from __future__ import annotations

import torch

CHUNK = 64
"""Tokens that are computed together."""


def decays_between(total: torch.Tensor) -> torch.Tensor:
    """What each token leaves of each one before it, (..., tokens, tokens); 0 for later ones.

    `total` (..., tokens) are the logarithms of what is left of the state before the chunk.
    """
    tokens = total.shape[-1]
    since = total[..., :, None] - total[..., None, :]
    later = torch.ones(tokens, tokens, dtype=torch.bool, device=total.device).triu(1)
    return since.masked_fill(later, -torch.inf).exp()


def read_and_write(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    total: torch.Tensor,
    since: torch.Tensor,
    state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the queries find (batch, heads, tokens, value_size), and the state behind the chunk.

    `query` and `key` are (batch, heads, tokens, key_size), `value` (batch, heads, tokens,
    value_size), `state` (batch, heads, key_size, value_size). A token finds its own value, too.
    """
    output = (query * total.exp()[..., None]) @ state
    output = output + ((query @ key.transpose(-1, -2)) * since) @ value
    left = total[..., -1:]
    key = key * (left - total).exp()[..., None]
    return output, state * left.exp()[..., None] + key.transpose(-1, -2) @ value
