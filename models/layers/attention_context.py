"""What a model's attention layers need from whoever keeps keys and values."""

from __future__ import annotations

from typing import Protocol

import torch


class AttentionContext(Protocol):
    """One step's view of the KV cache: appends a layer's new tokens and attends to all.

    The tokens of all sequences of the step lie one after the other; which token belongs to whom,
    and what it may see, is known to the context alone. So are the scale, window and soft cap of
    every layer, which are the model's configuration.
    """

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """Attention output (tokens, heads, head_size) of rotated queries, keys, and values.

        `query` is (tokens, heads, head_size), `key` and `value` (tokens, kv_heads, head_size).
        """
        ...
