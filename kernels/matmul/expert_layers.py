"""The MLPs of a mixture of experts in plain torch, each token in those picked for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from ..elementwise.gated_activation import GateActivation, gated_activation_reference
from ..formats.dequantize import dequantize
from ..formats.weight import PreparedWeight, plain_weight
from .linear import LinearLayer, linear_reference

_GATHERED_ELEMENTS = 1 << 24
"""Weights that are copied at once for the tokens that picked them."""


@dataclass(frozen=True, eq=False)
class ExpertLayer:
    """A linear layer of each of `count` experts.

    `weight` (count * outputs, inputs) holds their matrices one after the other, from
    `Operations.prepare_experts`; `bias` is (count, outputs) fp32 or None.
    """

    weight: PreparedWeight
    count: int
    bias: torch.Tensor | None = None

    @property
    def outputs(self) -> int:
        """The number of outputs of each expert."""
        return self.weight.shape[0] // self.count

    def of(self, expert: int) -> LinearLayer:
        """The layer of one expert."""
        rows = slice(expert * self.outputs, (expert + 1) * self.outputs)
        weight = self.weight
        part = weight[rows] if isinstance(weight, torch.Tensor) else weight.rows(rows)
        return LinearLayer(part, None if self.bias is None else self.bias[expert])


@dataclass(frozen=True, eq=False)
class ExpertLayers:
    """The three linear layers of all experts, and the activation between them.

    Experts without gates have one layer as `gate` and as `up`.
    """

    gate: ExpertLayer
    up: ExpertLayer
    down: ExpertLayer
    activation: GateActivation


def experts_reference(
    x: torch.Tensor, layers: ExpertLayers, picked: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """The weighted sum (tokens, outputs) fp32 of the outputs of each token's experts.

    `x` is (tokens, inputs), `picked` (tokens, used) int64 and `weights` (tokens, used) fp32: picks
    without weight add nothing, whatever comes of them. On a GPU the host does not wait: few tokens
    copy the matrices of their experts, and for more all tokens are computed by each expert. On a
    CPU an expert computes only its own tokens.
    """
    if x.device.type == "cpu":
        return experts_by_group(x, layers, picked, weights)
    if picked.numel() <= layers.gate.count:
        return experts_by_copy(x, layers, picked, weights)
    return experts_by_mask(x, layers, picked, weights)


def experts_by_group(
    x: torch.Tensor, layers: ExpertLayers, picked: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """See `experts_reference`: each expert computes the tokens that picked it; the host waits."""
    pairs = picked.flatten()
    order = pairs.argsort(stable=True)
    counts = cast("list[int]", pairs.bincount(minlength=layers.gate.count).tolist())  # pyright: ignore[reportUnknownMemberType]
    out = x.new_empty(len(pairs), layers.down.outputs, dtype=torch.float32)
    first = 0
    for expert, count in enumerate(counts):
        if count:
            mine = order[first : first + count]
            out[mine] = _one_expert(x[mine // picked.shape[1]], layers, expert).float()
            first += count
    # Summed in the order of the picks, so that a token's sum does not depend on the batch.
    return weighted(out.view(*picked.shape, -1), weights[..., None]).sum(1)


def experts_by_copy(
    x: torch.Tensor, layers: ExpertLayers, picked: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """See `experts_reference`: the matrices of each token's experts are copied, some at a time."""
    used, pairs = picked.shape[1], picked.flatten()
    inputs = x.repeat_interleave(used, 0)
    step = max(1, _GATHERED_ELEMENTS // (layers.gate.outputs * x.shape[1]))
    parts = [
        _copied(inputs[first : first + step], layers, pairs[first : first + step]).float()
        for first in range(0, len(pairs), step)
    ]
    return weighted(torch.cat(parts).view(*picked.shape, -1), weights[..., None]).sum(1)


def experts_by_mask(
    x: torch.Tensor, layers: ExpertLayers, picked: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """See `experts_reference`: each expert computes all tokens, those of others with no weight."""
    out = x.new_zeros(len(x), layers.down.outputs, dtype=torch.float32)
    for expert in range(layers.gate.count):
        weight = weights.where(picked == expert, 0.0).sum(1, keepdim=True)
        out += weighted(_one_expert(x, layers, expert).float(), weight)
    return out


def weighted(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Outputs times weights, and 0 without weight: there an expert's outputs may be infinite."""
    return (rows * weights).where(weights != 0, 0.0)


def _one_expert(x: torch.Tensor, layers: ExpertLayers, expert: int) -> torch.Tensor:
    gate = _multiply(x, layers.gate, expert)
    up = gate if layers.up is layers.gate else _multiply(x, layers.up, expert)
    active = gated_activation_reference(gate, up, layers.activation)
    return _multiply(active, layers.down, expert)


def _multiply(x: torch.Tensor, layer: ExpertLayer, expert: int) -> torch.Tensor:
    one = layer.of(expert)
    return linear_reference(x, plain_weight(one.weight), one.bias)


def _copied(x: torch.Tensor, layers: ExpertLayers, experts: torch.Tensor) -> torch.Tensor:
    gate = _multiply_each(x, layers.gate, experts)
    up = gate if layers.up is layers.gate else _multiply_each(x, layers.up, experts)
    active = gated_activation_reference(gate, up, layers.activation)
    return _multiply_each(active, layers.down, experts)


def _multiply_each(x: torch.Tensor, layer: ExpertLayer, experts: torch.Tensor) -> torch.Tensor:
    """Row i of `x` by the matrix of the expert `experts[i]`: (rows, outputs)."""
    outputs, weight = layer.outputs, plain_weight(layer.weight)
    rows = (experts[:, None] * outputs + torch.arange(outputs, device=x.device)).flatten()
    if isinstance(weight, torch.Tensor):
        some = weight.index_select(0, rows).to(x.dtype)
    else:
        some = dequantize(weight.rows(rows), x.dtype)
    out = torch.bmm(some.view(len(x), outputs, -1), x[:, :, None]).squeeze(2)
    return out if layer.bias is None else out + layer.bias[experts].to(x.dtype)
