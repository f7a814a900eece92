"""A block that normalises behind attention and behind its feed-forward part."""

from __future__ import annotations

import torch

from ..config.model_config import ModelConfig
from .attention import Attention, QueryKeyNorm
from .attention_context import AttentionContext
from .gated_mlp import GatedMLP
from .parameters import Parameters
from .rotary_embedding import RotaryTables


class PostNormBlock:
    """`x += norm(attention(x)); x += norm(mlp(x))`; both parts read the stream as it is."""

    query_key_norm = QueryKeyNorm.NOTHING

    def __init__(self, layer: int, config: ModelConfig, parameters: Parameters) -> None:
        size, epsilon = config.hidden_size, config.norm_epsilon
        self._operations = parameters.operations
        self.attention = Attention(layer, config, parameters, self.query_key_norm)
        self._attention_norm = parameters.norm(f"blk.{layer}.post_attention_norm", size, epsilon)
        self._mlp = GatedMLP(layer, config, parameters)
        self._mlp_norm = parameters.norm(f"blk.{layer}.post_ffw_norm", size, epsilon)

    def __call__(
        self, residual: torch.Tensor, tables: RotaryTables | None, context: AttentionContext
    ) -> None:
        """Take the residual stream (tokens, hidden) fp32 through this layer."""
        operations = self._operations
        attended = self.attention(operations.activations(residual), tables, context)
        (rows,) = operations.linear(attended, self.attention.output)
        self._attention_norm.add_to(residual, rows)
        (rows,) = operations.linear(self._mlp(operations.activations(residual)), self._mlp.down)
        self._mlp_norm.add_to(residual, rows)
