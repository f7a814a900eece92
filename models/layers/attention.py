"""Attention of one layer, up to where keys and values are kept."""

from __future__ import annotations

from enum import Enum

import torch

from ingle.kernels.attention.attention_input import AttentionInput
from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.matmul.linear_layer import LinearLayer

from ..config.model_config import ModelConfig
from .attention_context import AttentionContext
from .parameters import Parameters
from .rms_norm import RMSNorm
from .rotary_embedding import RotaryTables


class QueryKeyNorm(Enum):
    """What is normalised between projection and rotation."""

    NOTHING = "nothing"
    EACH_HEAD = "each head"
    ALL_HEADS = "all heads together"


class Attention:
    """Projects to queries, keys and values, and attends in a context; `output` projects back."""

    def __init__(
        self,
        layer: int,
        config: ModelConfig,
        parameters: Parameters,
        norm: QueryKeyNorm = QueryKeyNorm.NOTHING,
    ) -> None:
        self._layer = layer
        self._operations = parameters.operations
        self._epsilon = config.norm_epsilon
        self._head_size = config.head_size
        self._norms_each_head = norm is QueryKeyNorm.EACH_HEAD
        width, kv_width = (
            heads * config.head_size for heads in (config.num_heads, config.num_kv_heads)
        )
        hidden, prefix = config.hidden_size, f"blk.{layer}.attn"
        key = parameters.linear(f"{prefix}_k", kv_width, hidden)
        self.key_bias: torch.Tensor | None = None
        """What is added to all keys before they rotate: (kv_heads, head_size) fp32.

        None where there is none, or where keys are normalised behind it.
        """
        if key.bias is not None and norm is QueryKeyNorm.NOTHING:
            self.key_bias = key.bias.float().view(-1, config.head_size)
            key = LinearLayer(key.weight)
        self._query, self._key, self._value = parameters.operations.stack(
            parameters.linear(f"{prefix}_q", width, hidden),
            key,
            parameters.linear(f"{prefix}_v", kv_width, hidden),
        )
        self.output = parameters.linear(f"{prefix}_output", hidden, width)
        self._query_norm: RMSNorm | None = None
        self._key_norm: RMSNorm | None = None
        if norm is not QueryKeyNorm.NOTHING:
            sizes = (config.head_size,) * 2 if self._norms_each_head else (width, kv_width)
            self._query_norm, self._key_norm = (
                parameters.norm(f"{prefix}_{name}_norm", size, config.norm_epsilon)
                for name, size in zip("qk", sizes, strict=True)
            )

    def __call__(
        self, x: Activations, tables: RotaryTables | None, context: AttentionContext
    ) -> Activations:
        """What the layer `output` multiplies, (tokens, heads * head_size).

        Without `tables` nothing rotates.
        """
        query, key, value = self._operations.linear(x, self._query, self._key, self._value)
        query_norm, key_norm = self._query_norm, self._key_norm
        cosine, sine = tables or (None, None)
        if not self._norms_each_head:
            query, key = self._normalized(query, query_norm), self._normalized(key, key_norm)
            query_norm = key_norm = None
        heads = AttentionInput(
            self._heads(query),
            self._heads(key),
            self._heads(value),
            None if query_norm is None else query_norm.weight,
            None if key_norm is None else key_norm.weight,
            self._epsilon,
            cosine,
            sine,
            self.key_bias,
        )
        return context.attend(self._layer, heads)

    def _heads(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, heads, head_size)."""
        return rows.view(rows.shape[0], -1, self._head_size)

    def _normalized(self, rows: torch.Tensor, norm: RMSNorm | None) -> torch.Tensor:
        """Rows with all heads of a token normalised as one."""
        return rows if norm is None else norm.numbers(rows)
