"""A block that normalises behind attention and behind its feed-forward part."""

from __future__ import annotations

import torch

from ..config import ModelConfig
from .attention import Attention, QueryKeyNorm
from .attention_context import AttentionContext
from .gated_mlp import GatedMLP
from .parameters import Parameters
from .rotary_embedding import RotaryTables


class PostNormBlock:
    """`x += norm(attention(x)); x += norm(mlp(x))`.

    Both parts read the residual stream as it is, so it is brought to `dtype`, the type of the
    activations, on the way in.
    """

    query_key_norm = QueryKeyNorm.NOTHING

    def __init__(self, layer: int, config: ModelConfig, parameters: Parameters) -> None:
        size, epsilon = config.hidden_size, config.norm_epsilon
        self.attention = Attention(layer, config, parameters, self.query_key_norm)
        self._attention_norm = parameters.norm(f"blk.{layer}.post_attention_norm", size, epsilon)
        self._mlp = GatedMLP(layer, config, parameters)
        self._mlp_norm = parameters.norm(f"blk.{layer}.post_ffw_norm", size, epsilon)
        self._dtype = parameters.dtype

    def __call__(
        self, hidden: torch.Tensor, tables: RotaryTables | None, context: AttentionContext
    ) -> torch.Tensor:
        """The residual stream (tokens, hidden) fp32 behind this layer."""
        attended = self.attention(hidden.to(self._dtype), tables, context)
        hidden = hidden + self._attention_norm(attended)
        return hidden + self._mlp_norm(self._mlp(hidden.to(self._dtype)))
