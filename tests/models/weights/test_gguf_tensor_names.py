from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
import torch

from ingle.kernels.formats.weight import QuantizedTensor
from ingle.models.config.model_config import LayerConfig, ModelConfig
from ingle.models.errors import InvalidModel
from ingle.models.weights.gguf_tensor_names import GGUFTensorNames
from ingle.models.weights.weights import Weight


class Raw:
    """Tensors of a file."""

    def __init__(self, tensors: Mapping[str, Weight]) -> None:
        self.tensors = tensors

    @property
    def names(self) -> Iterable[str]:
        return self.tensors

    def get(self, name: str) -> Weight:
        return self.tensors[name]


def config(architecture: str) -> ModelConfig:
    return ModelConfig(
        architecture=architecture,
        vocab_size=10,
        hidden_size=16,
        intermediate_size=6,
        num_heads=4,
        num_kv_heads=2,
        head_size=4,
        context=64,
        norm_epsilon=1e-5,
        layers=(LayerConfig(),),
        attention_scale=0.5,
    )


def values(tensor: torch.Tensor) -> list[float]:
    return [float(value) for value in tensor]


def test_interleaved_rotary_rows_become_halves() -> None:
    rows = torch.arange(8)[:, None].expand(8, 16).clone()
    found = GGUFTensorNames(Raw({"blk.0.attn_k.weight": rows}), config("llama")).get(
        "blk.0.attn_k.weight"
    )
    assert isinstance(found, torch.Tensor)
    assert values(found[:, 0]) == [0, 2, 1, 3, 4, 6, 5, 7]


def test_families_with_split_rotation_keep_their_rows() -> None:
    rows = torch.randn(8, 16)
    weights = GGUFTensorNames(Raw({"blk.0.attn_k.weight": rows}), config("qwen2"))
    assert weights.get("blk.0.attn_k.weight") is rows


def test_quantised_rows_are_moved_as_a_whole() -> None:
    data = torch.arange(16, dtype=torch.uint8)[:, None].expand(16, 18).contiguous()
    raw = Raw({"blk.0.attn_q.weight": QuantizedTensor("Q4_0", data, 32)})
    found = GGUFTensorNames(raw, config("granite")).get("blk.0.attn_q.weight")
    assert isinstance(found, QuantizedTensor)
    assert (found.type, found.columns) == ("Q4_0", 32)
    assert values(found.data[:8, 0]) == [0, 2, 1, 3, 4, 6, 5, 7]
    assert sorted(values(found.data[:, 5])) == list(range(16))


def test_biases_are_reordered_like_their_rows() -> None:
    weights = GGUFTensorNames(Raw({"blk.0.attn_k.bias": torch.arange(8.0)}), config("llama"))
    found = weights.get("blk.0.attn_k.bias")
    assert isinstance(found, torch.Tensor)
    assert values(found) == [0, 2, 1, 3, 4, 6, 5, 7]


def test_fused_qkv_is_split_in_any_family() -> None:
    raw = Raw({"blk.0.attn_qkv.weight": torch.arange(32.0)[:, None].expand(32, 16)})
    weights = GGUFTensorNames(raw, config("phi3"))
    names = [f"blk.0.attn_{letter}.weight" for letter in "qkv"]
    assert sorted(weights.names) == sorted(names)
    rows = [weights.get(name) for name in names]
    assert [tuple(part.shape) for part in rows] == [(16, 16), (8, 16), (8, 16)]
    assert all(isinstance(part, torch.Tensor) for part in rows)
    assert [float(part[0, 0]) for part in rows if isinstance(part, torch.Tensor)] == [0, 16, 24]


def test_fused_gate_and_up_of_phi3_is_split() -> None:
    raw = Raw({"blk.0.ffn_up.weight": torch.arange(12.0)[:, None].expand(12, 16)})
    weights = GGUFTensorNames(raw, config("phi3"))
    gate, up = weights.get("blk.0.ffn_gate.weight"), weights.get("blk.0.ffn_up.weight")
    assert isinstance(gate, torch.Tensor)
    assert isinstance(up, torch.Tensor)
    assert (values(gate[:, 0]), values(up[:, 0])) == ([*range(6)], [*range(6, 12)])


def test_rope_factors_are_not_weights() -> None:
    raw = Raw({"rope_freqs.weight": torch.ones(2), "output_norm.weight": torch.ones(16)})
    weights = GGUFTensorNames(raw, config("llama"))
    assert list(weights.names) == ["output_norm.weight"]
    with pytest.raises(InvalidModel, match="rope_freqs"):
        weights.get("rope_freqs.weight")


@pytest.mark.parametrize("shape", [(), (3,), (7, 16), (40, 16)])
@pytest.mark.parametrize("name", ["blk.0.attn_q.weight", "blk.0.attn_qkv.weight"])
def test_tensor_of_the_wrong_shape_is_passed_through(name: str, shape: tuple[int, ...]) -> None:
    found = GGUFTensorNames(Raw({name: torch.zeros(shape)}), config("llama")).get(
        "blk.0.attn_q.weight"
    )
    assert tuple(found.shape) == shape
