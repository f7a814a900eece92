from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
import torch

from ingle.models.config.model_config import LayerConfig, ModelConfig
from ingle.models.errors import InvalidModel
from ingle.models.weights.hf_tensor_names import HFTensorNames
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


def config(architecture: str, *, tied: bool = False) -> ModelConfig:
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
        tied_embeddings=tied,
    )


@pytest.mark.parametrize(
    "prefix", ["model.", "model.language_model.", "language_model.model.", "language_model.", ""]
)
def test_prefixes_of_all_versions_are_recognised(prefix: str) -> None:
    names = ("embed_tokens", "norm", "layers.0.self_attn.o_proj", "layers.12.mlp.up_proj")
    raw = Raw({f"{prefix}{name}.weight": torch.ones(1) for name in names})
    expected = ["token_embd", "output_norm", "blk.0.attn_output", "blk.12.ffn_up"]
    found = HFTensorNames(raw, config("llama")).names
    assert sorted(found) == sorted(f"{name}.weight" for name in expected)


def test_a_buffer_is_unknown_unless_it_is_said_to_be_one() -> None:
    raw = Raw({"embeddings.position_ids": torch.zeros(1, 4, dtype=torch.int64)})
    assert list(HFTensorNames(raw, config("llama")).names) == ["embeddings.position_ids"]
    assert not list(HFTensorNames(raw, config("llama"), raw.tensors.keys()).names)


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [("llama", "blk.0.ffn_norm.weight"), ("olmo2", "blk.0.post_attention_norm.weight")],
)
def test_name_of_the_norm_after_attention(architecture: str, expected: str) -> None:
    raw = Raw({"model.layers.0.post_attention_layernorm.weight": torch.ones(16)})
    assert list(HFTensorNames(raw, config(architecture)).names) == [expected]


def test_one_is_added_to_gemma_norms() -> None:
    raw = Raw({"model.norm.weight": torch.full((16,), 0.5, dtype=torch.bfloat16)})
    found = HFTensorNames(raw, config("gemma3")).get("output_norm.weight")
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, torch.full((16,), 1.5))


def test_tied_output_head_is_not_read() -> None:
    raw = Raw({"lm_head.weight": torch.ones(10, 16), "model.norm.weight": torch.ones(16)})
    assert "output.weight" in HFTensorNames(raw, config("llama")).names
    assert "output.weight" not in HFTensorNames(raw, config("llama", tied=True)).names


def test_only_vision_tensors_and_tables_are_ignored() -> None:
    raw = Raw(
        {
            "vision_tower.vision_model.encoder.layers.0.self_attn.k_proj.weight": torch.ones(1),
            "model.multi_modal_projector.mm_soft_emb_norm.weight": torch.ones(1),
            "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(1),
            "model.layers.0.mlp.adapter.weight": torch.ones(1),
            "some.scale": torch.ones(1),
        }
    )
    names = sorted(HFTensorNames(raw, config("llama")).names)
    assert names == ["blk.0.mlp.adapter.weight", "some.scale"]


def test_draft_layers_and_pictures_of_qwen35_are_ignored() -> None:
    raw = Raw(
        {
            "mtp.layers.0.self_attn.q_proj.weight": torch.ones(1),
            "mtp.fc.weight": torch.ones(1),
            "model.visual.blocks.0.attn.qkv.weight": torch.ones(1),
            "model.language_model.norm.weight": torch.ones(16),
        }
    )
    assert list(HFTensorNames(raw, config("qwen35")).names) == ["output_norm.weight"]
    assert list(HFTensorNames(Raw({"mtp.fc.weight": torch.ones(1)}), config("llama")).names)


def test_missing_tensor_is_named() -> None:
    with pytest.raises(InvalidModel, match=r"output\.weight"):
        HFTensorNames(Raw({}), config("llama")).get("output.weight")
