"""RMS norm and RoPE of queries and keys, in plain torch."""

from __future__ import annotations

import torch

from ..elementwise.rms_norm import rms_norm_reference
from ..elementwise.rope import rope_reference
from .attention_input import AttentionInput


def norm_rope_reference(
    x: AttentionInput,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values of `x` after norm and RoPE, in their own type.

    Changed heads are new tensors or changed in place.
    """
    biased = x.key if x.key_bias is None else (x.key.float() + x.key_bias).to(x.key.dtype)
    query = _normalized(x.query, x.query_norm, x.epsilon)
    key = _normalized(biased, x.key_norm, x.epsilon)
    if x.cosine is not None and x.sine is not None:
        rope_reference(query, key, x.cosine, x.sine)
    return query, key, x.value


def _normalized(heads: torch.Tensor, weight: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    return heads if weight is None else rms_norm_reference(heads, weight, epsilon, heads.dtype)
