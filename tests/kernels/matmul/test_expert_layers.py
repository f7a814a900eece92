from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ingle.kernels.elementwise.gated_activation import (
    GateActivation,
    gated_activation_reference,
)
from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.nf4 import quantize_nf4
from ingle.kernels.formats.weight import QuantizedTensor, RepackedTensor, Weight
from ingle.kernels.matmul import expert_layers
from ingle.kernels.matmul.expert_layers import (
    ExpertLayer,
    ExpertLayers,
    experts_by_copy,
    experts_by_group,
    experts_by_mask,
)

MakeQuantized = Callable[..., QuantizedTensor]
WAYS = (experts_by_group, experts_by_copy, experts_by_mask)
EXPERTS, HIDDEN, WIDTH, USED = 5, 256, 512, 3


def plain(weight: Weight) -> torch.Tensor:
    return weight if isinstance(weight, torch.Tensor) else dequantize(weight)


def expected(
    x: torch.Tensor, layers: ExpertLayers, picked: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Each token by each of its experts, in double precision but for the activation."""
    out = torch.zeros(len(x), HIDDEN, dtype=torch.float64)

    def multiply(layer: ExpertLayer, expert: int, row: torch.Tensor) -> torch.Tensor:
        assert not isinstance(layer.weight, RepackedTensor)
        found = plain(layer.weight).double().view(EXPERTS, layer.outputs, -1)[expert] @ row
        return found if layer.bias is None else found + layer.bias[expert]

    for token, row in enumerate(x.double()):
        for place in range(USED):
            expert = int(picked[token, place])
            gate, up = multiply(layers.gate, expert, row), multiply(layers.up, expert, row)
            active = gated_activation_reference(gate, up, layers.activation)
            out[token] += weights[token, place] * multiply(layers.down, expert, active)
    return out


def pick(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Experts of which one is never picked, and weights."""
    picked = torch.stack([torch.randperm(EXPERTS - 1)[:USED] for _ in range(tokens)])
    return picked, torch.rand(tokens, USED)


def layers_of(
    make: Callable[[int, int], Weight], activation: GateActivation = "silu", *, bias: bool = False
) -> ExpertLayers:
    """Three layers whose matrices of `rows` by `columns` are made by `make`."""

    def layer(outputs: int, inputs: int) -> ExpertLayer:
        weight = make(EXPERTS * outputs, inputs)
        return ExpertLayer(weight, EXPERTS, torch.randn(EXPERTS, outputs) if bias else None)

    down = layer(HIDDEN, WIDTH)
    return ExpertLayers(layer(WIDTH, HIDDEN), layer(WIDTH, HIDDEN), down, activation)


def floats(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns) / 16


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tokens", [1, 7])
def test_each_way_sums_the_picked_experts(way: Any, *, bias: bool, tokens: int) -> None:
    layers = layers_of(floats, bias=bias)
    x = torch.randn(tokens, HIDDEN)
    found = way(x, layers, *(chosen := pick(tokens)))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected(x, layers, *chosen), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_experts_without_gates_square_what_is_positive(way: Any) -> None:
    layers = layers_of(floats)
    layers = ExpertLayers(layers.up, layers.up, layers.down, "relu")
    x, chosen = torch.randn(7, HIDDEN), pick(7)
    found = way(x, layers, *chosen).double()
    torch.testing.assert_close(found, expected(x, layers, *chosen), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0", "NF4"])
def test_quantised_experts_are_dequantised(
    way: Any, kind: str, make_quantized: MakeQuantized, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expert_layers, "_GATHERED_ELEMENTS", 2 * WIDTH * HIDDEN)

    def matrix(rows: int, columns: int) -> Weight:
        if kind == "NF4":
            return quantize_nf4(floats(rows, columns))
        return make_quantized(kind, rows, columns, tame=True)

    layers = layers_of(matrix, "gelu_tanh")
    x, chosen = torch.randn(4, HIDDEN), pick(4)
    wanted = expected(x, layers, *chosen)
    found = way(x, layers, *chosen).double()
    assert float((found - wanted).square().sum() / wanted.square().sum()) < 1e-10


class WithoutHost(TorchDispatchMode):
    """Refuses operations whose result the host must wait for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "nonzero", "bincount", "masked_select"), name
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("way", WAYS)
def test_host_does_not_wait_where_a_gpu_computes(way: Any, make_quantized: MakeQuantized) -> None:
    layers = layers_of(lambda rows, columns: make_quantized("Q4_K", rows, columns, tame=True))
    x, chosen = torch.randn(2, HIDDEN), pick(2)
    if way is experts_by_group:
        with WithoutHost(), pytest.raises(AssertionError):  # pyright: ignore[reportUnknownMemberType]
            way(x, layers, *chosen)
    else:
        with WithoutHost():
            way(x, layers, *chosen)


def test_sum_of_a_token_does_not_depend_on_the_others() -> None:
    layers = layers_of(floats)
    x, (picked, weights) = torch.randn(9, HIDDEN), pick(9)
    whole = experts_by_group(x, layers, picked, weights)
    for token in range(9):
        rows = slice(token, token + 1)
        one = experts_by_group(x[rows], layers, picked[rows], weights[rows])
        torch.testing.assert_close(one[0], whole[token], rtol=1e-5, atol=1e-5)
