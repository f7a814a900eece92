"""The gated delta rule: a matrix a head that maps keys to values, decays, and is corrected."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch

from .decayed_sum import CHUNK, decays_between, read_and_write

_Solve = Callable[..., torch.Tensor]
_EPSILON = 1e-6


def gated_delta_reference(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    rate: torch.Tensor,
    state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs (batch, tokens, heads, value_size) fp32, and the state after the last token.

    All are fp32: `query` and `key` (batch, tokens, heads, key_size), not normalised yet, `value`
    (batch, tokens, heads, value_size), `decay` (batch, tokens, heads) the logarithm of what a token
    leaves of the state (batch, heads, key_size, value_size), `rate` (batch, tokens, heads) how much
    of its value it corrects there. Tokens of a chunk are computed together.
    """
    query = _normalized(query) * query.shape[-1] ** -0.5
    key = _normalized(key)
    parts: list[torch.Tensor] = []
    for start in range(0, query.shape[1], CHUNK):
        some = slice(start, start + CHUNK)
        output, state = _advance(
            query[:, some].transpose(1, 2),
            key[:, some].transpose(1, 2),
            value[:, some].transpose(1, 2),
            decay[:, some].transpose(1, 2),
            rate[:, some].transpose(1, 2),
            state,
        )
        parts.append(output.transpose(1, 2))
    return torch.cat(parts, 1), state


def _normalized(rows: torch.Tensor) -> torch.Tensor:
    return rows * torch.rsqrt(rows.square().sum(-1, keepdim=True) + _EPSILON)


def _advance(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    rate: torch.Tensor,
    state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs (batch, heads, tokens, ...) of one chunk, and the state behind it.

    A token corrects what the state before it would answer, the tokens of the chunk before it
    included: a triangular system, solved at once for the values and for the keys of the old state.
    """
    total = decay.cumsum(-1)
    since = decays_between(total)
    written = key * rate[..., None]
    wanted = torch.cat((value * rate[..., None], written * total.exp()[..., None]), -1)
    if query.shape[2] > 1:
        system = (written @ key.transpose(-1, -2)) * since
        solve = cast("_Solve", torch.linalg.solve_triangular)  # pyright: ignore[reportUnknownMemberType]
        wanted = solve(system, wanted, upper=False, unitriangular=True)
    width = value.shape[-1]
    new = wanted[..., :width] - wanted[..., width:] @ state
    return read_and_write(query, key, new, total, since, state)
