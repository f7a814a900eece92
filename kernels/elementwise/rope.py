"""Rotary position embedding (RoPE) of queries and keys, with pairs half a rotation apart (NeoX)."""

from __future__ import annotations

import torch


def rotary_tables(
    positions: torch.Tensor, frequencies: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine (tokens, pairs) fp32 of every position times every frequency, scaled.

    `positions` is (tokens,) of integers, `frequencies` (pairs,) fp32 in radians a position. Angles
    are products in double precision: in single precision those of position 1,000,000 would be off
    by 0.03.
    """
    angles = positions.double()[:, None] * frequencies.double()[None, :]
    return (angles.cos() * scale).float(), (angles.sin() * scale).float()


def rope_reference(
    query: torch.Tensor, key: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor
) -> None:
    """Rotate both in place, computed in fp32."""
    pairs = cosine.shape[1]
    cosine, sine = cosine[:, None, :], sine[:, None, :]
    for heads in (query, key):
        first, second = heads[..., :pairs].float(), heads[..., pairs : 2 * pairs].float()
        turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
        heads[..., : 2 * pairs] = turned.to(heads.dtype)


def rope(query: torch.Tensor, key: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> None:
    """Rotate the first `2 * pairs` elements of every head, in place.

    `query` is (tokens, heads, head_size), `key` (tokens, kv_heads, head_size); `cosine` and `sine`
    are (tokens, pairs) fp32. The other elements stay as they are.
    """
    rope_reference(query, key, cosine, sine)
