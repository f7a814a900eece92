"""Linear layers: their weights, and products and look-ups in plain torch for every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import torch
from torch.nn.functional import linear as dense_linear

from ..elementwise.gated_activation import GateActivation
from ..formats.dequantize import dequantize, row_chunks
from ..formats.fp8 import dequantize_fp8, round_inputs
from ..formats.weight import FP8Tensor, NF4Tensor, PreparedWeight, RepackedTensor, Weight
from .low_rank import LayerAdapters

W = TypeVar("W", torch.Tensor, RepackedTensor)


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """`weight` (outputs, inputs) from `Operations.prepare`, and `bias` (outputs,) fp32 or None.

    `adapters` are added to the outputs. Those of a layer that `is_summed` are a rank's addends.
    """

    weight: PreparedWeight
    bias: torch.Tensor | None = None
    adapters: LayerAdapters | None = None
    is_summed: bool = False

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.weight.shape[0]


class GatedLayer(NamedTuple, Generic[W]):
    """Two matrices of one shape, the activation between them, and biases (rows,) float32."""

    gate: W
    up: W
    activation: GateActivation
    gate_bias: torch.Tensor | None = None
    up_bias: torch.Tensor | None = None


def linear_reference(
    x: torch.Tensor, weight: Weight, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """`x` (..., columns) by the transpose of `weight` (rows, columns), plus `bias` (rows,).

    The result (..., rows) has x's dtype and is accumulated in float32. Weights of another dtype
    are converted, some rows at a time; for those in FP8 inputs are rounded.
    """
    if bias is not None:
        bias = bias.to(x.dtype)
    if isinstance(weight, FP8Tensor):
        return dense_linear(round_inputs(x, weight), dequantize_fp8(weight, x.dtype), bias)
    if isinstance(weight, torch.Tensor) and weight.dtype == x.dtype:
        return dense_linear(x, weight, bias)
    if isinstance(weight, NF4Tensor):
        weight = weight.unnested()  # once, rather than for every chunk
    rows, columns = weight.shape
    out = x.new_empty(*x.shape[:-1], rows)
    # The LM head of a large vocabulary would take gigabytes if converted at once.
    for part in row_chunks(rows, columns, x.device):
        some = None if bias is None else bias[part]
        out[..., part] = dense_linear(x, _dense_rows(weight, part, x.dtype), some)
    return out


def embedding_reference(
    token_ids: torch.Tensor, weight: Weight, dtype: torch.dtype
) -> torch.Tensor:
    """The rows (tokens, columns) of `weight` for `token_ids` (tokens,), in `dtype`."""
    return _dense_rows(weight, token_ids, dtype)


def _dense_rows(weight: Weight, rows: slice | torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(weight, torch.Tensor):
        return weight[rows].to(dtype)
    return dequantize(weight.rows(rows), dtype)
