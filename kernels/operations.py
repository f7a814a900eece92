"""The operations that a model's layers need, in plain torch on any device."""

from __future__ import annotations

import torch

from .attention.attention_input import AttentionInput, AttentionMetadata
from .attention.paged_attention_reference import norm_rope_reference, paged_attention_reference
from .elementwise.activations import Activations
from .elementwise.gated_activation import GateActivation, gated_activation_reference
from .elementwise.rms_norm import Norm, rms_norm_reference
from .elementwise.rope import rotary_tables
from .formats.dequantize import dequantize
from .formats.weight import FP8Tensor, NF4Tensor, PreparedWeight, Weight, plain_weight
from .kv_cache.kv_append import kv_append_reference
from .kv_cache.kv_pages import KVPages
from .matmul.expert_layers import ExpertLayers, experts_reference
from .matmul.linear import LinearLayer, embedding_reference, linear_reference
from .matmul.low_rank import ActiveAdapters
from .recurrent.recurrent_operations import RecurrentOperations


class Operations:
    """The steps between tokens and logits, each coarse enough for one kernel, in plain torch.

    The residual stream is (tokens, width) float32 and is changed in place. Subclasses choose other
    kernels, and the form of weights and of activations between them: here activations are dense,
    and weights stay as they are. No operation waits for the device, so that a whole forward pass
    can be recorded as a CUDA graph.
    """

    reads_blocks = False
    """Whether quantised weights are multiplied directly, not dequantised in every step."""

    def __init__(self, dtype: torch.dtype) -> None:
        """`dtype` is that of dense activations."""
        self.dtype = dtype
        self.adapters = ActiveAdapters()
        """Set before a step, for the layers that refer to it."""
        self.rounds_to_fp8 = False
        """Whether a prepared matrix is multiplied by inputs in FP8."""
        self.recurrent = RecurrentOperations()
        self.has_slow_experts = False
        """Whether there are kernels, but none for a prepared matrix of experts."""

    def multiplies_fp8(self, weight: FP8Tensor) -> bool:
        """Whether `linear` rounds inputs to FP8 for such a matrix; else it is to be dequantised."""
        del weight
        return False

    def prepare(self, weight: Weight, *, of_tokens: bool = False) -> PreparedWeight:
        """A matrix on the device in the form that the other operations need; once, at load.

        One `of_tokens`, embeddings or an output layer, does not decide on the form of the inputs
        of the others: its own get the form that `reads_dense` says.
        """
        del of_tokens
        return weight

    def prepare_experts(self, weight: Weight) -> PreparedWeight:
        """The matrices of a layer's experts in the form that `experts` needs; once, at load."""
        return weight.unnested() if isinstance(weight, NF4Tensor) else weight

    def prepare_each(self, weight: Weight) -> Weight:
        """The matrices of all heads in the form that `linear_each` needs; once, at load."""
        return weight

    def stack(self, *layers: LinearLayer) -> tuple[LinearLayer, ...]:
        """The same layers, which have one input, so that `linear` computes them together."""
        return layers

    def embed(self, token_ids: torch.Tensor, table: PreparedWeight, scale: float) -> torch.Tensor:
        """A new residual stream: rows of `table` for `token_ids` (tokens,) int64, scaled."""
        return embedding_reference(token_ids, plain_weight(table), torch.float32) * scale

    def activations(self, rows: torch.Tensor) -> Activations:
        """`rows` (tokens, size) of any float type in the form that linear layers need."""
        return Activations(rows.shape[-1], rows.to(self.dtype))

    def rms_norm(
        self, rows: torch.Tensor, weight: torch.Tensor, epsilon: float, *, dense: bool = False
    ) -> Activations:
        """RMS norm of rows (tokens, size) of any float type, times `weight` (size,) fp32.

        Returned in the form that linear layers need, or as dense values with `dense`.
        """
        del dense
        return Activations(rows.shape[-1], rms_norm_reference(rows, weight, epsilon, self.dtype))

    def rms_norm_add(
        self, residual: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor, epsilon: float
    ) -> None:
        """Add normalised `rows` to the residual stream."""
        residual += rms_norm_reference(rows, weight, epsilon, self.dtype)

    def linear(
        self, x: Activations, *layers: LinearLayer, dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Outputs (tokens, outputs) of each layer; they may be slices of one tensor."""
        rows = dense(x)
        found = [linear_reference(rows, plain_weight(layer.weight), layer.bias) for layer in layers]
        for out, layer in zip(found, layers, strict=True):
            if layer.adapters is not None:
                layer.adapters.add_to(out, rows)
        return tuple(each.to(dtype or self.dtype) for each in found)

    def linear_each(self, rows: torch.Tensor, weight: Weight) -> torch.Tensor:
        """Rows (tokens, heads, inputs) by a matrix for each head: (tokens, heads, outputs).

        `weight` is (heads * outputs, inputs), from `prepare_each`.
        """
        plain = weight if isinstance(weight, torch.Tensor) else dequantize(weight, rows.dtype)
        matrices = plain.view(rows.shape[1], -1, rows.shape[2])
        return torch.einsum("thi,hoi->tho", rows, matrices.to(rows.dtype))

    def linear_add(
        self, residual: torch.Tensor, x: Activations, layer: LinearLayer, scale: float = 1.0
    ) -> None:
        """Add `scale` times the layer's outputs to the residual stream."""
        residual.add_(
            linear_reference(dense(x), plain_weight(layer.weight), layer.bias), alpha=scale
        )
        if layer.adapters is not None:
            layer.adapters.add_to(residual, dense(x), scale)

    def linear_add_norm(
        self, residual: torch.Tensor, x: Activations, layer: LinearLayer, scale: float, norm: Norm
    ) -> Activations:
        """`linear_add`, then `rms_norm` of the residual stream."""
        self.linear_add(residual, x, layer, scale)
        return self.rms_norm(residual, norm.weight, norm.epsilon)

    def gated_linear(
        self, x: Activations, gate: LinearLayer, up: LinearLayer, activation: GateActivation
    ) -> Activations:
        """`activation(gate(x)) * up(x)`."""
        gates, ups = self.linear(x, gate, up)
        return Activations(gate.outputs, gated_activation_reference(gates, ups, activation))

    def sigmoid_gate(self, gate: torch.Tensor, rows: torch.Tensor) -> Activations:
        """`sigmoid(gate) * rows`, both (tokens, size) of the activation type."""
        return self.activations(rows.float() * gate.float().sigmoid())

    def squared_relu(self, rows: torch.Tensor) -> Activations:
        """`relu(rows) ** 2` of rows (tokens, size) of the activation type."""
        return self.activations(rows.relu().square())

    def experts(
        self, x: Activations, layers: ExpertLayers, picked: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """The weighted sum (tokens, outputs) fp32 of each token's experts; see `expert_layers`."""
        return experts_reference(dense(x), layers, picked, weights)

    def rotary_tables(
        self, positions: torch.Tensor, frequencies: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine (tokens, pairs) fp32; see `rope.rotary_tables`."""
        return rotary_tables(positions, frequencies, scale)

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

        See `rope_append` and `paged_attention`. Heads of `x` may be changed in place. Without key
        heads nothing is appended: the pages are those of an earlier layer. Without value heads
        values are parts of the keys, and `value_pages` of the `key_pages`.
        """
        query, key, value = norm_rope_reference(x)
        if key.shape[1]:
            kv_append_reference(
                key, value, key_pages, value_pages, step.slot_mapping, step.positions
            )
        output = paged_attention_reference(
            query,
            key_pages,
            value_pages,
            step.block_tables,
            step.context_lengths,
            step.query_starts,
            scale=scale,
            window=window,
            soft_cap=soft_cap,
            sinks=x.sinks,
            last_seen=step.last_seen,
        )
        return Activations(output.shape[1] * output.shape[2], output.flatten(1))


def dense(x: Activations) -> torch.Tensor:
    """The dense values; raises `ValueError` if there are only int8 tiles."""
    if x.dense is None:
        raise ValueError("There are no activations but in bytes.")
    return x.dense
