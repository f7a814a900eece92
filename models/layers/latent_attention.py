"""Multi-head latent attention (MLA): the cache holds what keys and values are made of."""

from __future__ import annotations

import torch

from ingle.kernels.attention.attention_input import AttentionInput
from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.matmul.linear import LinearLayer
from ingle.kernels.operations import dense

from ..config.model_config import LatentConfig, ModelConfig
from .attention import AttentionContext
from .parameters import Parameters, RMSNorm
from .rotary_embedding import RotaryTables


class LatentAttention:
    """Attention of all query heads to one key, whose last elements are its value.

    A product of a query with a head's key, `q (W c)`, equals `(q W) c`: so queries are multiplied
    by the matrices that would make keys of the latent `c`, and outputs by those that would make
    values. `output` projects back.
    """

    def __init__(
        self, layer: int, config: ModelConfig, latent: LatentConfig, parameters: Parameters
    ) -> None:
        prefix, hidden, heads = f"blk.{layer}.attn", config.hidden_size, config.num_heads
        self._layer = layer
        self._latent = latent
        self._heads = heads
        self._operations = parameters.operations
        width = heads * (latent.key_size + latent.rope_size)
        self._query_norm: RMSNorm | None = None
        self._queries: LinearLayer | None = None
        if latent.query_rank:
            first = parameters.linear(f"{prefix}_q_a", latent.query_rank, hidden)
            self._query_norm = parameters.norm(
                f"{prefix}_q_a_norm", latent.query_rank, latent.norm_epsilon
            )
            self._queries = parameters.linear(f"{prefix}_q_b", width, latent.query_rank)
        else:
            first = parameters.linear(f"{prefix}_q", width, hidden)
        down = parameters.linear(f"{prefix}_kv_a_mqa", latent.rank + latent.rope_size, hidden)
        self._projections = parameters.operations.stack(first, down)
        self._norm = parameters.norm(f"{prefix}_kv_a_norm", latent.rank, latent.norm_epsilon)
        self._of_keys = parameters.per_head(f"{prefix}_k_b", heads, latent.rank, latent.key_size)
        self._of_values = parameters.per_head(
            f"{prefix}_v_b", heads, latent.value_size, latent.rank
        )
        self.output = parameters.linear(f"{prefix}_output", hidden, heads * latent.value_size)

    def __call__(
        self, x: Activations, tables: RotaryTables | None, context: AttentionContext
    ) -> Activations:
        """The input of the layer `output`, (tokens, heads * value_size)."""
        latent, operations = self._latent, self._operations
        rows, key = operations.linear(x, *self._projections)
        if self._query_norm is not None and self._queries is not None:
            (rows,) = operations.linear(self._query_norm(rows), self._queries)
        cosine, sine, query_scale = tables or (None, None, None)
        if query_scale is not None:
            rows = (rows * query_scale).to(rows.dtype)
        queries = rows.view(len(rows), self._heads, -1)
        plain, turning = queries[..., : latent.key_size], queries[..., latent.key_size :]
        query = torch.cat((turning, operations.linear_each(plain, self._of_keys)), -1)
        plain, turning = key[:, : latent.rank], key[:, latent.rank :]
        key = torch.cat((turning, self._norm.as_tensor(plain)), -1)[:, None]
        nothing = key.new_empty(len(key), 0, latent.rank)
        heads = AttentionInput(query, key, nothing, cosine=cosine, sine=sine, wants_dense=True)
        found = context.attend(self._layer, heads)
        mixed = dense(found).view(len(rows), self._heads, latent.rank)
        return operations.activations(operations.linear_each(mixed, self._of_values).flatten(1))
