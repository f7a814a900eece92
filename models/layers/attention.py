"""The attention of one layer: projections, norms and RoPE around the KV cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch

from ingle.kernels.attention.attention_input import AttentionInput
from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.elementwise.rope import rope_reference
from ingle.kernels.operations import dense

from ..config.model_config import ModelConfig
from ..families.family import QueryKeyNorm
from .parameters import Parameters, RMSNorm
from .rotary_embedding import RotaryTables


class AttentionContext(Protocol):
    """One step's view of the KV cache: appends a layer's new tokens and attends to all of them.

    The tokens of all sequences of the step follow one another; the context knows which sequence
    each belongs to and what it may see. It also knows the scale, window and soft cap of every
    layer, from the model's configuration.
    """

    def attend(self, layer: int, x: AttentionInput) -> Activations:
        """Attention output (tokens, heads * head_size); may change the heads of `x` in place."""
        ...


class Attention:
    """Projects to queries, keys and values, and attends in a context; `output` projects back."""

    def __init__(
        self,
        layer: int,
        config: ModelConfig,
        parameters: Parameters,
        norm: QueryKeyNorm,
    ) -> None:
        self._layer = layer
        if norm is QueryKeyNorm.EACH_HEAD_IF_ANY:
            has_norms = parameters.has(f"blk.{layer}.attn_q_norm.weight")
            norm = QueryKeyNorm.EACH_HEAD if has_norms else QueryKeyNorm.NOTHING
        self._operations = parameters.operations
        self._epsilon = config.norm_epsilon
        self._head_size = config.head_size
        self._is_gated = config.gated_attention
        self._norms_each_head = norm in (QueryKeyNorm.EACH_HEAD, QueryKeyNorm.EACH_HEAD_ROTATED)
        self._norms_rotated = norm is QueryKeyNorm.EACH_HEAD_ROTATED
        width, kv_width = (
            heads * config.head_size for heads in (config.num_heads, config.num_kv_heads)
        )
        hidden, prefix = config.hidden_size, f"blk.{layer}.attn"
        key = parameters.linear(f"{prefix}_k", kv_width, hidden)
        self.key_bias: torch.Tensor | None = None
        """The bias of keys before RoPE, (kv_heads, head_size) fp32.

        None if there is none, or if keys are normalised after it.
        """
        if key.bias is not None and norm is QueryKeyNorm.NOTHING:
            self.key_bias = key.bias.float().view(-1, config.head_size)
            key = replace(key, bias=None)
        self._query, self._key, self._value = parameters.operations.stack(
            parameters.linear(f"{prefix}_q", width * (2 if config.gated_attention else 1), hidden),
            key,
            parameters.linear(f"{prefix}_v", kv_width, hidden),
        )
        self.output = parameters.linear(f"{prefix}_output", hidden, width)
        self._sinks: torch.Tensor | None = None
        if config.attention_sinks:
            self._sinks = parameters.vector(f"{prefix}_sinks.weight", config.num_heads)
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
        """The input of the layer `output`, (tokens, heads * head_size).

        Without `tables` no RoPE is applied.
        """
        query, key, value = self._operations.linear(x, self._query, self._key, self._value)
        gate: torch.Tensor | None = None
        if self._is_gated:
            both = query.view(len(query), -1, 2, self._head_size)
            query, gate = both[:, :, 0].flatten(1), both[:, :, 1].flatten(1)
        query_norm, key_norm = self._query_norm, self._key_norm
        cosine, sine, query_scale = tables or (None, None, None)
        if query_scale is not None:
            query = (query * query_scale).to(query.dtype)
        if not self._norms_each_head:
            query, key = self._normalized(query, query_norm), self._normalized(key, key_norm)
            query_norm = key_norm = None
        query, key = self._heads(query), self._heads(key)
        if self._norms_rotated and cosine is not None and sine is not None:
            rope_reference(query, key, cosine, sine)
            cosine = sine = None
        heads = AttentionInput(
            query,
            key,
            self._heads(value),
            None if query_norm is None else query_norm.weight,
            None if key_norm is None else key_norm.weight,
            self._epsilon,
            cosine,
            sine,
            self.key_bias,
            self._sinks,
        )
        output = context.attend(self._layer, heads)
        if gate is None:
            return output
        return self._operations.activations(dense(output).float() * gate.float().sigmoid())

    def _heads(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, heads, head_size)."""
        return rows.view(rows.shape[0], -1, self._head_size)

    def _normalized(self, rows: torch.Tensor, norm: RMSNorm | None) -> torch.Tensor:
        """Rows, normalised over all heads of a token together."""
        return rows if norm is None else norm.as_tensor(rows)
