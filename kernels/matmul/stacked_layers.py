"""Layers with one input whose weights are adjacent in memory, so that one product computes all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, groupby, pairwise

import torch

from ..formats.weight import PreparedWeight, RepackedTensor
from .linear import LinearLayer


def stack_layers(layers: Sequence[LinearLayer]) -> tuple[LinearLayer, ...]:
    """The same layers in the same order; neighbours of one format now share memory."""
    stacked: list[LinearLayer] = []
    for kind, group in groupby(layers, key=lambda layer: _kind(layer.weight)):
        members = list(group)
        stacked += members if kind is None or len(members) == 1 else _together(members)
    return tuple(stacked)


def join_layers(layers: Sequence[LinearLayer]) -> list[LinearLayer]:
    """The fewest layers that give the outputs of all of them, side by side."""
    joined: list[LinearLayer] = []
    for layer in layers:
        both = _joined(joined[-1], layer) if joined else None
        if both is None:
            joined.append(layer)
        else:
            joined[-1] = both
    return joined


def _kind(weight: PreparedWeight) -> tuple[object, ...] | None:
    """A key that is equal for weights which fit into one tensor; None if they cannot be joined."""
    if isinstance(weight, torch.Tensor):
        return weight.dtype, weight.shape[1]
    if isinstance(weight, RepackedTensor) and weight.nested is None and weight.order is None:
        return weight.type, weight.columns
    return None


def _together(layers: Sequence[LinearLayer]) -> list[LinearLayer]:
    data = torch.cat([_data(layer.weight) for layer in layers])
    biases: torch.Tensor | None = None
    if any(layer.bias is not None for layer in layers):
        biases = torch.cat(
            [
                data.new_zeros(layer.outputs, dtype=torch.float32)
                if layer.bias is None
                else layer.bias
                for layer in layers
            ]
        )
    ends = [0, *accumulate(layer.outputs for layer in layers)]
    return [
        replace(
            layer,
            weight=_with_data(layer.weight, data[first:end]),
            bias=None if biases is None else biases[first:end],
        )
        for layer, (first, end) in zip(layers, pairwise(ends), strict=True)
    ]


def _joined(first: LinearLayer, second: LinearLayer) -> LinearLayer | None:
    """Both as one layer if the second's rows follow the first's in memory."""
    kind = _kind(first.weight)
    if kind is None or kind != _kind(second.weight):
        return None
    data = _following(_data(first.weight), _data(second.weight))
    if data is None:
        return None
    if first.bias is None or second.bias is None:
        return (
            None if first.bias is not second.bias else LinearLayer(_with_data(first.weight, data))
        )
    bias = _following(first.bias, second.bias)
    return None if bias is None else LinearLayer(_with_data(first.weight, data), bias)


def _following(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor | None:
    ends = first.data_ptr() + first.nbytes
    if first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr():
        return None
    if not first.is_contiguous() or ends != second.data_ptr():
        return None
    return first.as_strided((len(first) + len(second), *first.shape[1:]), first.stride())


def _data(weight: PreparedWeight) -> torch.Tensor:
    assert isinstance(weight, torch.Tensor | RepackedTensor)
    return weight if isinstance(weight, torch.Tensor) else weight.data


def _with_data(weight: PreparedWeight, data: torch.Tensor) -> PreparedWeight:
    return replace(weight, data=data) if isinstance(weight, RepackedTensor) else data
