"""What a model's attention layers need from whoever keeps keys and values."""

from __future__ import annotations

from typing import Protocol

from ingle.kernels.attention.attention_input import AttentionInput
from ingle.kernels.elementwise.activations import Activations


class AttentionContext(Protocol):
    """One step's view of the KV cache: appends a layer's new tokens and attends to all.

    The tokens of all sequences of the step lie one after the other; which token belongs to whom,
    and what it may see, is known to the context alone. So are the scale, window and soft cap of
    every layer, which are the model's configuration.
    """

    def attend(self, layer: int, x: AttentionInput) -> Activations:
        """Attention output (tokens, heads * head_size); heads of `x` may be changed in place."""
        ...
