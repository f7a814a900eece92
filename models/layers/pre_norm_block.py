"""A block that normalises before attention and before its feed-forward part."""

from __future__ import annotations

import torch

from ..config.model_config import ModelConfig
from .attention import Attention, QueryKeyNorm
from .attention_context import AttentionContext
from .gated_mlp import GatedMLP
from .parameters import Parameters
from .rotary_embedding import RotaryTables


class PreNormBlock:
    """`x += attention(norm(x)); x += mlp(norm(x))`, each addend scaled by `residual_scale`."""

    query_key_norm = QueryKeyNorm.NOTHING

    def __init__(self, layer: int, config: ModelConfig, parameters: Parameters) -> None:
        size, epsilon = config.hidden_size, config.norm_epsilon
        self._operations = parameters.operations
        self._attention_norm = parameters.norm(f"blk.{layer}.attn_norm", size, epsilon)
        self.attention = Attention(layer, config, parameters, self.query_key_norm)
        self._mlp_norm = parameters.norm(f"blk.{layer}.ffn_norm", size, epsilon)
        self._mlp = GatedMLP(layer, config, parameters)
        self._scale = config.residual_scale

    def __call__(
        self, residual: torch.Tensor, tables: RotaryTables | None, context: AttentionContext
    ) -> None:
        """Take the residual stream (tokens, hidden) fp32 through this layer."""
        add = self._operations.linear_add
        attended = self.attention(self._attention_norm(residual), tables, context)
        add(residual, attended, self.attention.output, self._scale)
        add(residual, self._mlp(self._mlp_norm(residual)), self._mlp.down, self._scale)
