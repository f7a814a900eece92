"""Layers stacked in one piece of memory compute the same as separate ones."""

from __future__ import annotations

import pytest
import torch
from gpu.weights import random_weight

from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import PreparedWeight, QuantizedTensor, RepackedTensor
from ingle.kernels.matmul.linear import LinearLayer
from ingle.kernels.matmul.stacked_layers import join_layers, stack_layers

CPU = torch.device("cpu")


def matrix(kind: str, rows: int, seed: int) -> PreparedWeight:
    if kind == "F32":
        return torch.randn(rows, 256, generator=torch.Generator().manual_seed(seed))
    weight = random_weight(kind, rows, 256, CPU, seed)
    assert isinstance(weight, QuantizedTensor)
    return repack(weight)


def data(weight: PreparedWeight) -> torch.Tensor:
    return weight.data if isinstance(weight, RepackedTensor) else torch.as_tensor(weight)


@pytest.mark.parametrize(
    ("kinds", "products"),
    [
        (("Q4_K", "Q4_K", "Q4_K"), 1),
        (("Q4_K", "Q4_K", "Q6_K"), 2),
        (("Q4_K", "Q6_K", "Q4_K"), 3),
        (("F32", "F32", "F32"), 1),
        (("Q6_K", "F32", "F32"), 2),
    ],
)
@pytest.mark.parametrize("biased", [(), (0, 1, 2), (1,)])
def test_adjacent_layers_of_one_format_are_joined(
    kinds: tuple[str, ...], products: int, biased: tuple[int, ...]
) -> None:
    layers = [
        LinearLayer(
            matrix(kind, 8 * (3 - i), i), torch.full((8 * (3 - i),), i) if i in biased else None
        )
        for i, kind in enumerate(kinds)
    ]
    stacked = stack_layers(layers)
    joined = join_layers(stacked)
    assert len(joined) == products
    assert sum(layer.outputs for layer in joined) == 48
    for before, after in zip(layers, stacked, strict=True):
        assert torch.equal(data(before.weight), data(after.weight))
        expected = before.bias if before.bias is not None else torch.zeros(before.outputs)
        found = after.bias if after.bias is not None else torch.zeros(before.outputs)
        assert torch.equal(found, expected.float())
    rows = [row for layer in joined for row in data(layer.weight)]
    expected_rows = [row for layer in layers for row in data(layer.weight)]
    assert all(torch.equal(a, b) for a, b in zip(rows, expected_rows, strict=True))


def test_layers_in_separate_memory_are_not_joined() -> None:
    layers = [LinearLayer(matrix("Q4_K", 8, seed)) for seed in range(2)]
    assert join_layers(layers) == layers
