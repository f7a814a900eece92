"""A bias that all keys of a layer share, rotated like the keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..elementwise.rope import rope_reference


@dataclass(frozen=True, eq=False)
class KeyBias:
    """`bias` (kv_heads, head_size) fp32, and the layer's RoPE tables.

    `cosine` and `sine` are (positions, pairs) fp32, see `rope`.
    """

    bias: torch.Tensor
    cosine: torch.Tensor
    sine: torch.Tensor

    def at(self, positions: torch.Tensor) -> torch.Tensor:
        """The bias, rotated for the keys at `positions` (tokens,) int64.

        (tokens, kv_heads, head_size) fp32.
        """
        part = self.bias.repeat(len(positions), 1, 1)
        rope_reference(part[:, :0], part, self.cosine[positions], self.sine[positions])
        return part
