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
        heads = config.kv_heads_of(layer)
        self._head_size = heads.size
        self._is_gated = config.gated_attention
        self._norms_each_head = norm not in (QueryKeyNorm.NOTHING, QueryKeyNorm.ALL_HEADS)
        self._norms_rotated = norm is QueryKeyNorm.EACH_HEAD_ROTATED
        width, kv_width = (count * heads.size for count in (config.num_heads, heads.count))
        hidden, prefix = config.hidden_size, f"blk.{layer}.attn"
        has_keys = config.layers[layer].has_keys
        self.has_keys = has_keys
        """Whether there are projections to keys and values."""
        self.key_bias: torch.Tensor | None = None
        """The bias of keys before RoPE, (kv_heads, head_size) fp32.

        None if there is none, or if keys are normalised after it.
        """
        inputs = config.layers[layer].inputs or hidden
        projections = [
            parameters.linear(f"{prefix}_q", width * (2 if config.gated_attention else 1), inputs)
        ]
        if has_keys:
            key = parameters.linear(f"{prefix}_k", kv_width, inputs)
            if key.bias is not None and norm is QueryKeyNorm.NOTHING:
                self.key_bias = key.bias.float().view(-1, heads.size)
                key = replace(key, bias=None)
            projections.append(key)
        else:
            parameters.leave_out(*(f"{prefix}_{name}.weight" for name in ("k", "v", "k_norm")))
        norms_values = has_keys and norm is QueryKeyNorm.EACH_HEAD_AND_VALUES
        if has_keys and not (norms_values and not parameters.has(f"{prefix}_v.weight")):
            projections.append(parameters.linear(f"{prefix}_v", kv_width, inputs))
        self._projections = parameters.operations.stack(*projections)
        self.output = parameters.linear(f"{prefix}_output", hidden, width)
        self._sinks: torch.Tensor | None = None
        if config.attention_sinks:
            self._sinks = parameters.vector(f"{prefix}_sinks.weight", config.num_heads)
        self._query_norm: RMSNorm | None = None
        self._key_norm: RMSNorm | None = None
        self._value_norm: RMSNorm | None = None
        if norm is not QueryKeyNorm.NOTHING:
            sizes = (heads.size,) * 2 if self._norms_each_head else (width, kv_width)
            epsilon = config.norm_epsilon
            self._query_norm = parameters.norm(f"{prefix}_q_norm", sizes[0], epsilon)
            if has_keys:
                self._key_norm = parameters.norm(f"{prefix}_k_norm", sizes[1], epsilon)
        if norms_values:
            self._value_norm = parameters.norm_without_weight(heads.size, config.norm_epsilon)

    def __call__(
        self, x: Activations, tables: RotaryTables | None, context: AttentionContext
    ) -> Activations:
        """The input of the layer `output`, (tokens, heads * head_size).

        Without `tables` no RoPE is applied.
        """
        query, key, value = self._project(x)
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
            self._is_gated,
        )
        output = context.attend(self._layer, heads)
        if gate is None:
            return output
        return self._operations.sigmoid_gate(gate, dense(output))

    def _project(self, x: Activations) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values; no heads of the latter where an earlier layer has them."""
        query, *others = self._operations.linear(x, *self._projections)
        if not others:
            nothing = query.new_empty(len(query), 0)
            return query, nothing, nothing
        key, value = others[0], others[-1]
        if self._value_norm is not None:
            value = self._value_norm.as_tensor(value.reshape(-1, self._head_size)).view(key.shape)
        return query, key, value

    def _heads(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, heads, head_size)."""
        return rows.view(rows.shape[0], rows.shape[1] // self._head_size, self._head_size)

    def _normalized(self, rows: torch.Tensor, norm: RMSNorm | None) -> torch.Tensor:
        """Rows, normalised over all heads of a token together."""
        return rows if norm is None else norm.as_tensor(rows)
