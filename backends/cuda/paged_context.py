"""The attention layers' way to the pages of the KV cache."""

from __future__ import annotations

from ingle.kernels.attention.attention_input import AttentionInput
from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.operations import Operations
from ingle.models.config.model_config import ModelConfig

from .graphs.step_inputs import StepInputs
from .kv_pool import KVPool


class PagedContext:
    """An `AttentionContext` over a `KVPool`, for whatever `StepInputs` say."""

    def __init__(
        self, config: ModelConfig, operations: Operations, pool: KVPool, inputs: StepInputs
    ) -> None:
        self._config = config
        self._operations = operations
        self._pool = pool
        self._inputs = inputs

    def attend(self, layer: int, x: AttentionInput) -> Activations:
        """See `AttentionContext.attend`."""
        config = self._config
        return self._operations.attend(
            x,
            *self._pool.layer(layer),
            self._inputs.attention,
            scale=config.attention_scale,
            window=config.layers[layer].window,
            soft_cap=config.attention_soft_cap,
        )
