"""What the layers of a model ask of a device."""

from __future__ import annotations

from typing import Protocol

import torch

from .attention.attention_input import AttentionInput
from .attention.attention_metadata import AttentionMetadata
from .elementwise.activations import Activations
from .elementwise.gated_activation import GateActivation
from .formats.weight import PreparedWeight, Weight
from .kv_cache.kv_pages import KVPages
from .matmul.linear_layer import LinearLayer


class Operations(Protocol):
    """The steps between tokens and logits, coarse enough for a kernel each.

    The residual stream is (tokens, width) float32, and is changed in place. Which kernels compute a
    step, and in which form activations go from one to the next, is the implementation's business.
    Nothing waits for the device, so that a whole pass can be recorded as a graph.
    """

    @property
    def dtype(self) -> torch.dtype:
        """Of activations where they are numbers."""
        ...

    @property
    def reads_blocks(self) -> bool:
        """Whether quantised weights are multiplied as they are, not dequantised in every step."""
        ...

    def prepare(self, weight: Weight) -> PreparedWeight:
        """A matrix on the device in the form that the other operations want; once, at load."""
        ...

    def stack(self, *layers: LinearLayer) -> tuple[LinearLayer, ...]:
        """The same layers, which have one input, so that `linear` computes them together."""
        ...

    def embed(self, token_ids: torch.Tensor, table: PreparedWeight, scale: float) -> torch.Tensor:
        """A new residual stream: rows of `table` for `token_ids` (tokens,) int64, scaled."""
        ...

    def activations(self, rows: torch.Tensor) -> Activations:
        """`rows` (tokens, size) of any float type, as linear layers want them."""
        ...

    def rms_norm(
        self, rows: torch.Tensor, weight: torch.Tensor, epsilon: float, *, dense: bool = False
    ) -> Activations:
        """Rows (tokens, size) of any float type brought to length, times `weight` (size,) fp32.

        As linear layers want them, or as numbers where `dense` says that somebody else reads them.
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
        """Outputs (tokens, outputs) of each layer; they may be parts of the rows of one tensor."""
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
        """Normalise, rotate, store in pages, and attend: (tokens, heads * head_size).

        See `rope_append` and `paged_attention`. Heads of `x` may be changed in place.
        """
        ...
