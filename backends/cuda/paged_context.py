"""The attention layers' way to the pages of the KV cache."""

from __future__ import annotations

import torch

from ingle.kernels.kv_append import kv_append
from ingle.kernels.paged_attention import paged_attention
from ingle.models.config import ModelConfig

from .kv_pool import KVPool
from .step_inputs import StepInputs


class PagedContext:
    """An `AttentionContext` over a `KVPool`, for whatever `StepInputs` say."""

    def __init__(self, config: ModelConfig, pool: KVPool, inputs: StepInputs) -> None:
        self._config = config
        self._pool = pool
        self._inputs = inputs

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """See `AttentionContext.attend`."""
        config, inputs = self._config, self._inputs
        key_pages, value_pages = self._pool.layer(layer)
        kv_append(
            key, value, key_pages, value_pages, inputs.slot_mapping, positions=inputs.positions
        )
        return paged_attention(
            query,
            key_pages,
            value_pages,
            inputs.block_tables,
            inputs.context_lengths,
            inputs.query_starts,
            scale=config.attention_scale,
            window=config.layers[layer].window,
            soft_cap=config.attention_soft_cap,
        )
