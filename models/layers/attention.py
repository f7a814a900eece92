"""Attention of one layer, up to where keys and values are kept."""

from __future__ import annotations

from enum import Enum

import torch

from ingle.kernels.rope import rope

from ..config import ModelConfig
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
    """Projects to queries, keys and values, rotates, attends in a context, projects back."""

    def __init__(
        self,
        layer: int,
        config: ModelConfig,
        parameters: Parameters,
        norm: QueryKeyNorm = QueryKeyNorm.NOTHING,
    ) -> None:
        self._layer = layer
        self._head_size = config.head_size
        self._norms_each_head = norm is QueryKeyNorm.EACH_HEAD
        width, kv_width = (
            heads * config.head_size for heads in (config.num_heads, config.num_kv_heads)
        )
        hidden, prefix = config.hidden_size, f"blk.{layer}.attn"
        self._query = parameters.linear(f"{prefix}_q", width, hidden)
        self._key = parameters.linear(f"{prefix}_k", kv_width, hidden)
        self._value = parameters.linear(f"{prefix}_v", kv_width, hidden)
        self._output = parameters.linear(f"{prefix}_output", hidden, width)
        self._query_norm: RMSNorm | None = None
        self._key_norm: RMSNorm | None = None
        if norm is not QueryKeyNorm.NOTHING:
            sizes = (config.head_size,) * 2 if self._norms_each_head else (width, kv_width)
            self._query_norm, self._key_norm = (
                parameters.norm(f"{prefix}_{name}_norm", size, config.norm_epsilon)
                for name, size in zip("qk", sizes, strict=True)
            )

    def __call__(
        self, rows: torch.Tensor, tables: RotaryTables | None, context: AttentionContext
    ) -> torch.Tensor:
        """Outputs (tokens, hidden) of `rows`; without `tables` nothing rotates."""
        query = self._heads(self._query(rows), self._query_norm)
        key = self._heads(self._key(rows), self._key_norm)
        value = self._heads(self._value(rows), None)
        if tables is not None:
            rope(query, key, *tables)
        attended = context.attend(self._layer, query, key, value)
        return self._output(attended.flatten(1))

    @property
    def key_bias(self) -> torch.Tensor | None:
        """What is added to all keys before they rotate: (kv_heads, head_size) fp32.

        None where there is none, or where keys are normalised behind it.
        """
        bias = self._key.bias
        if bias is None or self._key_norm is not None:
            return None
        return bias.float().view(-1, self._head_size)

    def _heads(self, rows: torch.Tensor, norm: RMSNorm | None) -> torch.Tensor:
        """(tokens, heads, head_size), normalised."""
        if norm is not None and not self._norms_each_head:
            rows = norm(rows)
        heads = rows.view(rows.shape[0], -1, self._head_size)
        return norm(heads) if norm is not None and self._norms_each_head else heads
