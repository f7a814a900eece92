"""A block that normalises before and behind both of its parts."""

from __future__ import annotations

import torch

from ..config.model_config import ModelConfig
from .attention import Attention, QueryKeyNorm
from .attention_context import AttentionContext
from .gated_mlp import GatedMLP
from .parameters import Parameters
from .rotary_embedding import RotaryTables


class SandwichNormBlock:
    """`x += norm(attention(norm(x))); x += norm(mlp(norm(x)))`, with four norms of its own."""

    query_key_norm = QueryKeyNorm.NOTHING

    def __init__(self, layer: int, config: ModelConfig, parameters: Parameters) -> None:
        self._operations = parameters.operations
        self._attention_norm, self._post_attention_norm, self._mlp_norm, self._post_mlp_norm = (
            parameters.norm(f"blk.{layer}.{name}", config.hidden_size, config.norm_epsilon)
            for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
        )
        self.attention = Attention(layer, config, parameters, self.query_key_norm)
        self._mlp = GatedMLP(layer, config, parameters)

    def __call__(
        self, residual: torch.Tensor, tables: RotaryTables | None, context: AttentionContext
    ) -> None:
        """Take the residual stream (tokens, hidden) fp32 through this layer."""
        linear = self._operations.linear
        attended = self.attention(self._attention_norm(residual), tables, context)
        (rows,) = linear(attended, self.attention.output)
        self._post_attention_norm.add_to(residual, rows)
        (rows,) = linear(self._mlp(self._mlp_norm(residual)), self._mlp.down)
        self._post_mlp_norm.add_to(residual, rows)
