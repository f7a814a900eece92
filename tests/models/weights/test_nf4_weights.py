from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import pytest
import torch

from ingle.kernels.formats.nf4 import dequantize_nf4
from ingle.kernels.formats.weight import NF4Tensor, QuantizedTensor, Weight
from ingle.models.weights.converted_weights import NF4Weights


class Checkpoint:
    """A model of one layer."""

    def __init__(self, columns: int = 128) -> None:
        self.tensors: dict[str, Weight] = {
            "token_embd.weight": torch.randn(300, columns).bfloat16(),
            "output.weight": torch.randn(300, columns).bfloat16(),
            "output_norm.weight": torch.randn(columns),
            "blk.0.attn_norm.weight": torch.randn(columns),
            "blk.0.attn_q.weight": torch.randn(64, columns).bfloat16(),
            "blk.0.attn_q.bias": torch.randn(64),
            "blk.0.ssm_conv1d.weight": torch.randn(96, 4),
            "blk.0.ffn_up.weight": torch.randn(256, columns),
            "blk.0.ffn_down.weight": QuantizedTensor(
                "Q8_0", torch.zeros(columns, 272, dtype=torch.uint8), 256
            ),
        }

    @property
    def names(self) -> Iterable[str]:
        return self.tensors

    def get(self, name: str) -> Weight:
        return self.tensors[name]


def reference(weight: Weight) -> torch.Tensor:
    """Return the values that bitsandbytes gives."""
    assert isinstance(weight, torch.Tensor)
    bnb: Any = importlib.import_module("bitsandbytes.functional")
    return bnb.dequantize_4bit(
        *bnb.quantize_4bit(weight, quant_type="nf4", compress_statistics=True)
    )


@pytest.mark.parametrize("lm_head", [False, True])
def test_linear_layers_are_quantised_to_nf4(lm_head: bool) -> None:
    source = Checkpoint()
    weights = NF4Weights(source, lm_head=lm_head)
    assert list(weights.names) == list(source.names)
    expected = {"blk.0.attn_q.weight", "blk.0.ffn_up.weight"}
    if lm_head:
        expected.add("output.weight")
    for name in source.names:
        found, stored = weights.get(name), source.get(name)
        assert isinstance(found, NF4Tensor) == (name in expected)
        if isinstance(found, NF4Tensor):
            assert isinstance(stored, torch.Tensor)
            assert torch.equal(dequantize_nf4(found, stored.dtype), reference(stored))
        else:
            assert found is stored


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model.layers.0.self_attn.qkv_proj.weight", True),
        ("language_model.model.layers.17.mlp.down_proj.weight", True),
        ("blk.3.ffn_gate.weight", True),
        ("model.embed_tokens.weight", False),
        ("lm_head.weight", False),
        ("token_embd.weight", False),
    ],
)
def test_quantised_names_in_checkpoints_and_gguf_files(name: str, expected: bool) -> None:
    source = Checkpoint()
    source.tensors = {name: torch.randn(8, 64)}
    assert isinstance(NF4Weights(source).get(name), NF4Tensor) == expected


def test_rows_that_do_not_fill_blocks_get_the_same_values() -> None:
    source = Checkpoint(columns=40)
    found = NF4Weights(source, device=torch.device("cpu")).get("blk.0.attn_q.weight")
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, reference(source.get("blk.0.attn_q.weight")))
