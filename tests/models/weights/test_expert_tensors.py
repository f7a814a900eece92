"""Experts of safetensors: a tensor for each, or stacked ones, are the same to the layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
import torch

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.integer_codes import from_codes
from ingle.kernels.formats.nf4 import quantize_nf4
from ingle.kernels.formats.weight import NF4Tensor, QuantizedTensor, Weight
from ingle.models.config.model_config import ExpertConfig, LayerConfig, ModelConfig
from ingle.models.weights.converted_weights import NF4Weights
from ingle.models.weights.hf_tensor_names import HFTensorNames

EXPERTS, HIDDEN, WIDTH = 11, 64, 128
CONFIG = ModelConfig(
    architecture="qwen3moe",
    vocab_size=10,
    hidden_size=HIDDEN,
    intermediate_size=6,
    num_heads=4,
    num_kv_heads=2,
    head_size=16,
    context=64,
    norm_epsilon=1e-5,
    layers=(LayerConfig(experts=ExpertConfig(count=EXPERTS, used=2, width=WIDTH)),),
    attention_scale=0.5,
)


class Raw:
    """Tensors of a file."""

    def __init__(self, tensors: Mapping[str, Weight]) -> None:
        self.tensors = tensors

    @property
    def names(self) -> Iterable[str]:
        return self.tensors

    def get(self, name: str) -> Weight:
        return self.tensors[name]


def matrices() -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    shapes = {"gate": (WIDTH, HIDDEN), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
    return {name: torch.randn(EXPERTS, *shape, generator=random) for name, shape in shapes.items()}


@pytest.mark.parametrize("in_order", [True, False])
def test_blocks_of_separate_experts_are_joined(in_order: bool) -> None:
    """In one format, unless each expert has an order of its columns: then as floats."""
    experts: list[QuantizedTensor] = []
    for expert in range(EXPERTS):
        codes = torch.randint(0, 16, (WIDTH, HIDDEN), dtype=torch.uint8)
        scales, zeros = torch.rand(WIDTH, 2).half(), torch.full((WIDTH, 2), 7)
        group_of = None if in_order else torch.arange(HIDDEN).roll(expert + 1) // 32
        made = from_codes(codes, scales, zeros, 4, group_of)
        assert isinstance(made, QuantizedTensor)
        experts.append(made)
    names = (f"model.layers.0.mlp.experts.{expert}.up_proj.weight" for expert in range(EXPERTS))
    weights = HFTensorNames(Raw(dict(zip(names, experts, strict=True))), CONFIG)
    found = weights.get("blk.0.ffn_up_exps.weight")
    assert isinstance(found, QuantizedTensor) == in_order
    plain = dequantize(found) if isinstance(found, QuantizedTensor) else found
    assert isinstance(plain, torch.Tensor)
    assert torch.equal(plain, torch.cat([dequantize(each) for each in experts]))


def separate(block: str, *names: str) -> dict[str, torch.Tensor]:
    """A tensor for each expert; `names` are those of gate, up and down."""
    return {
        f"model.layers.0.{block}.experts.{expert}.{theirs}.weight": each[expert]
        for theirs, each in zip(names, matrices().values(), strict=True)
        for expert in reversed(range(EXPERTS))
    }


def stacked(both: str, down: str) -> dict[str, torch.Tensor]:
    """A tensor for gates and ups of all experts, and another one."""
    found = matrices()
    together = torch.cat((found["gate"], found["up"]), 1)
    return {f"model.layers.0.{both}": together, f"model.layers.0.{down}": found["down"]}


@pytest.mark.parametrize(
    "stored",
    [
        separate("mlp", "gate_proj", "up_proj", "down_proj"),
        separate("block_sparse_moe", "w1", "w3", "w2"),
        stacked("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
        stacked("block_sparse_moe.input_linear.weight", "block_sparse_moe.output_linear.weight"),
    ],
)
def test_experts_are_the_rows_of_one_matrix(stored: dict[str, torch.Tensor]) -> None:
    weights = HFTensorNames(Raw(stored), CONFIG)
    wanted = {f"blk.0.ffn_{name}_exps.weight": each for name, each in matrices().items()}
    assert set(weights.names) == wanted.keys()
    for name, each in wanted.items():
        found = weights.get(name)
        assert isinstance(found, torch.Tensor)
        assert torch.equal(found, each.flatten(0, 1))


def test_experts_in_nf4_are_joined() -> None:
    stored = separate("mlp", "gate_proj", "up_proj", "down_proj")
    packed = {name: quantize_nf4(each) for name, each in stored.items()}
    found = HFTensorNames(Raw(packed), CONFIG).get("blk.0.ffn_up_exps.weight")
    assert isinstance(found, NF4Tensor)
    each = [dequantize(packed[f"model.layers.0.mlp.experts.{e}.up_proj.weight"]) for e in range(11)]
    assert torch.equal(dequantize(found), torch.cat(each))
    del packed["model.layers.0.mlp.experts.4.up_proj.weight"]
    short = HFTensorNames(Raw(packed), CONFIG).get("blk.0.ffn_up_exps.weight")
    assert short.shape == (10 * WIDTH, HIDDEN), "which the layers refuse"


def test_experts_are_quantised_on_load_and_routers_are_not() -> None:
    router = {"model.layers.0.mlp.gate.weight": torch.randn(EXPERTS, HIDDEN)}
    stored = stacked("mlp.experts.gate_up_proj", "mlp.experts.down_proj") | router
    weights = NF4Weights(HFTensorNames(Raw(stored), CONFIG))
    assert isinstance(weights.get("blk.0.ffn_down_exps.weight"), NF4Tensor)
    assert isinstance(weights.get("blk.0.ffn_gate_inp.weight"), torch.Tensor)


def test_layers_that_only_draft_are_left_out() -> None:
    stored = {"model.layers.1.eh_proj.weight": torch.ones(1)}
    assert not list(HFTensorNames(Raw(stored), replace(CONFIG, architecture="glm4moe")).names)
    assert list(HFTensorNames(Raw(stored), CONFIG).names) == ["blk.1.eh_proj.weight"]
