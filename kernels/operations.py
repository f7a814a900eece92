"""The operations that a model's layers need, implemented by kernels and by plain torch."""

from __future__ import annotations

from typing import Protocol

import torch

from .attention.attention_input import AttentionInput, AttentionMetadata
from .elementwise.activations import Activations
from .elementwise.gated_activation import GateActivation
from .formats.weight import PreparedWeight, Weight
from .kv_cache.kv_pages import KVPages
from .matmul.linear import LinearLayer


class Operations(Protocol):
    """The steps between tokens and logits, each coarse enough for one kernel.

    The residual stream is (tokens, width) float32 and is changed in place. The implementation
    chooses the kernels and the form of activations between them. No operation waits for the device,
    so that a whole forward pass can be recorded as a CUDA graph.
    """

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of dense activations."""
        ...

    @property
    def reads_blocks(self) -> bool:
        """Whether quantised weights are multiplied directly, not dequantised in every step."""
        ...

    def prepare(self, weight: Weight) -> PreparedWeight:
        """A matrix on the device in the form that the other operations need; once, at load."""
        ...

    def stack(self, *layers: LinearLayer) -> tuple[LinearLayer, ...]:
        """The same layers, which have one input, so that `linear` computes them together."""
        ...

    def embed(self, token_ids: torch.Tensor, table: PreparedWeight, scale: float) -> torch.Tensor:
        """A new residual stream: rows of `table` for `token_ids` (tokens,) int64, scaled."""
        ...

    def activations(self, rows: torch.Tensor) -> Activations:
        """`rows` (tokens, size) of any float type in the form that linear layers need."""
        ...

    def rms_norm(
        self, rows: torch.Tensor, weight: torch.Tensor, epsilon: float, *, dense: bool = False
    ) -> Activations:
        """RMS norm of rows (tokens, size) of any float type, times `weight` (size,) fp32.

        Returned in the form that linear layers need, or as dense values with `dense`.
        """
        ...

    def rms_norm_add(
        self, residual: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor, epsilon: float
    ) -> None:
        """Add normalised `rows` to the residual stream."""
        ...

    def linear(
        self, x: Activations, *layers: LinearLayer, dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Outputs (tokens, outputs) of each layer; they may be slices of one tensor."""
        ...

    def linear_add(
        self, residual: torch.Tensor, x: Activations, layer: LinearLayer, scale: float = 1.0
    ) -> None:
        """Add `scale` times the layer's outputs to the residual stream."""
        ...

    def gated_linear(
        self, x: Activations, gate: LinearLayer, up: LinearLayer, activation: GateActivation
    ) -> Activations:
        """`activation(gate(x)) * up(x)`."""
        ...

    def rotary_tables(
        self, positions: torch.Tensor, frequencies: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine (tokens, pairs) fp32; see `rope.rotary_tables`."""
        ...

    def attend(
        self,
        x: AttentionInput,
        key_pages: KVPages,
        value_pages: KVPages,
        step: AttentionMetadata,
        *,
        scale: float,
        window: int | None = None,
        soft_cap: float | None = None,
    ) -> Activations:
        """Normalise, apply RoPE, append keys and values, and attend: (tokens, heads * head_size).

        See `rope_append` and `paged_attention`. Heads of `x` may be changed in place.
        """
        ...
