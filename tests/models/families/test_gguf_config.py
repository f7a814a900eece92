from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.models.config.model_config import Activation, ExpertConfig, ModelConfig
from ingle.models.errors import InvalidModel, UnsupportedModel
from ingle.models.families.family_registry import FAMILIES
from ingle.models.families.gguf_config import config_from_gguf
from ingle.models.gguf.gguf_header import read_header

pytestmark = pytest.mark.quick

if TYPE_CHECKING:
    from ..conftest import GGUFBuilder

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


def read(tiny: GGUFBuilder, tmp_path: Path) -> ModelConfig:
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny.build())
    return config_from_gguf(read_header(path))


def with_architecture(tiny: GGUFBuilder, architecture: str, **keys: tuple[int, Any]) -> GGUFBuilder:
    """Turn the tiny model into one of another family."""
    for key in [key for key in tiny.metadata if key.startswith("llama.")]:
        tiny.metadata[key.replace("llama", architecture, 1)] = tiny.metadata.pop(key)
    tiny.set("general.architecture", STRING, architecture)
    for key, (kind, value) in keys.items():
        tiny.set(f"{architecture}.{key.replace('__', '.')}", kind, value)
    return tiny


def test_header_is_read_into_a_config(tiny: GGUFBuilder, tmp_path: Path) -> None:
    config = read(tiny, tmp_path)
    assert (config.hidden_size, config.intermediate_size) == (64, 128)
    assert (config.num_heads, config.num_kv_heads, config.head_size) == (4, 2, 16)
    assert (config.vocab_size, config.context, config.num_layers) == (6, 2048, 2)
    assert config.attention_scale == 0.25
    assert config.tied_embeddings
    rope = config.layers[0].rope
    assert rope is not None
    assert (rope.theta, rope.size, rope.factors, rope.attention_factor) == (10000.0, 16, (), 1.0)


def test_every_architecture_can_be_read(tiny: GGUFBuilder, tmp_path: Path) -> None:
    keys = {
        "logit_scale": (FLOAT32, 8.0),
        "expert_count": (UINT32, 8),
        "expert_used_count": (UINT32, 2),
        "ssm.conv_kernel": (UINT32, 4),
        "ssm.state_size": (UINT32, 16),
        "ssm.group_count": (UINT32, 2),
        "ssm.time_step_rank": (UINT32, 4),
        "ssm.inner_size": (UINT32, 64),
        "attention.kv_lora_rank": (UINT32, 32),
        "attention.key_length_mla": (UINT32, 24),
        "attention.value_length_mla": (UINT32, 16),
    }
    names: set[str] = set()
    before = "llama"
    for name in sorted(FAMILIES):
        for key in [key for key in tiny.metadata if key.startswith(f"{before}.")]:
            tiny.metadata[key.replace(before, name, 1)] = tiny.metadata.pop(key)
        tiny.set("general.architecture", STRING, name)
        for key, (kind, value) in keys.items():
            tiny.metadata.pop(f"{name}.{key}", None)
            if FAMILIES[name].has_experts or not key.startswith("expert"):
                tiny.set(f"{name}.{key}", kind, value)
        tiny.set(f"{name}.attention.sliding_window_pattern", ARRAY, [1, 0], INT32)
        names.add(read(tiny, tmp_path).architecture)
        tiny.metadata.pop(f"{name}.attention.sliding_window_pattern")
        before = name
    assert names == FAMILIES.keys()


def test_latents_of_a_header_that_contradicts_itself(tiny: GGUFBuilder, tmp_path: Path) -> None:
    keys = {
        "attention__kv_lora_rank": (UINT32, 32),
        "attention__key_length_mla": (UINT32, 16),
        "attention__value_length_mla": (UINT32, 16),
    }
    with_architecture(tiny, "deepseek2", **keys)
    with pytest.raises(InvalidModel, match="rotates 16 elements of keys of 16"):
        read(tiny, tmp_path)
    tiny.set("deepseek2.attention.key_length_mla", UINT32, 24)
    config = read(tiny, tmp_path)
    assert (config.num_kv_heads, config.head_size) == (1, 48)
    assert config.latent is not None
    assert config.latent.key_size == 8
    tiny.metadata.pop("deepseek2.attention.kv_lora_rank")
    with pytest.raises(InvalidModel, match="kv_lora_rank"):
        read(tiny, tmp_path)


def test_unknown_architecture_hints_at_llama_cpp(tiny: GGUFBuilder, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel) as caught:
        read(with_architecture(tiny, "mamba9"), tmp_path)
    assert "mamba9" in caught.value.message
    assert "llama.cpp" in (caught.value.hint or "")


UNSUPPORTED: list[tuple[str, int, Any]] = [
    ("attention.causal", BOOL, False),
    ("attention.value_length", UINT32, 32),
]


@pytest.mark.parametrize(("key", "kind", "value"), UNSUPPORTED)
def test_unsupported_settings_hint_at_llama_cpp(
    tiny: GGUFBuilder, tmp_path: Path, key: str, kind: int, value: Any
) -> None:
    tiny.set("llama.rope.scaling.factor", FLOAT32, 2.0)
    with pytest.raises(UnsupportedModel) as caught:
        read(tiny.set(f"llama.{key}", kind, value), tmp_path)
    assert "llama.cpp" in (caught.value.hint or "")


def test_experts_of_a_family_without_any_are_rejected(tiny: GGUFBuilder, tmp_path: Path) -> None:
    keys = {"expert_count": (UINT32, 8), "expert_used_count": (UINT32, 2)}
    with_architecture(tiny, "qwen3", **keys)
    with pytest.raises(UnsupportedModel, match="mixture of experts"):
        read(tiny, tmp_path)


def test_experts_of_a_header(tiny: GGUFBuilder, tmp_path: Path) -> None:
    keys = {"expert_count": (UINT32, 8), "expert_used_count": (UINT32, 2)}
    with_architecture(tiny, "qwen3moe", **keys, expert_feed_forward_length=(UINT32, 48))
    experts = read(tiny, tmp_path).layers[0].experts
    assert experts == ExpertConfig(count=8, used=2, width=48)
    tiny.set("qwen3moe.expert_used_count", UINT32, 9)
    with pytest.raises(InvalidModel, match="9"):
        read(tiny, tmp_path)


GROUPS = [(3, 1), (4, 5), (8, 4), (4, 0)]


@pytest.mark.parametrize(("count", "used"), GROUPS)
def test_impossible_groups_of_experts_are_rejected(
    tiny: GGUFBuilder, tmp_path: Path, count: int, used: int
) -> None:
    keys = {"expert_count": (UINT32, 8), "expert_used_count": (UINT32, 4)}
    groups = {"expert_group_count": (UINT32, count), "expert_group_used_count": (UINT32, used)}
    with_architecture(tiny, "qwen3moe", **keys, **groups)
    with pytest.raises(InvalidModel):
        read(tiny, tmp_path)


def test_head_counts_that_differ_between_layers_are_rejected(
    tiny: GGUFBuilder, tmp_path: Path
) -> None:
    tiny.set("llama.attention.head_count_kv", ARRAY, [2, 4], INT32)
    with pytest.raises(UnsupportedModel):
        read(tiny, tmp_path)


WRONG: list[tuple[str, int, Any]] = [
    ("rope.scaling.factor", FLOAT32, 0.5),
    ("rope.scaling.factor", STRING, "4"),
    ("rope.freq_base", FLOAT32, 0.5),
    ("rope.scaling.original_context_length", UINT32, 0),
    ("rope.scaling.attn_factor", FLOAT32, 0.0),
    ("attention.layer_norm_rms_epsilon", FLOAT32, 0.0),
    ("attention.layer_norm_rms_epsilon", UINT32, 2),
    ("attention.scale", FLOAT32, -1.0),
    ("attention.causal", UINT32, 1),
    ("rope.scaling.type", UINT32, 1),
]


@pytest.mark.parametrize(("key", "kind", "value"), WRONG)
def test_contradictory_settings_are_rejected(
    tiny: GGUFBuilder, tmp_path: Path, key: str, kind: int, value: Any
) -> None:
    with pytest.raises(InvalidModel) as caught:
        read(tiny.set(f"llama.{key}", kind, value), tmp_path)
    assert caught.value.message.endswith(".")
    assert caught.value.hint


def test_missing_epsilon_is_named(tiny: GGUFBuilder, tmp_path: Path) -> None:
    del tiny.metadata["llama.attention.layer_norm_rms_epsilon"]
    with pytest.raises(InvalidModel, match="layer_norm_rms_epsilon"):
        read(tiny, tmp_path)


def test_gemma2_alternates_sliding_windows(tiny: GGUFBuilder, tmp_path: Path) -> None:
    config = read(
        with_architecture(tiny, "gemma2", attention__sliding_window=(UINT32, 128)), tmp_path
    )
    assert [layer.window for layer in config.layers] == [128, None]
    assert config.activation is Activation.GELU_TANH
    assert (config.attention_soft_cap, config.final_soft_cap) == (50.0, 30.0)
    assert config.embedding_scale == 8.0


def test_sliding_window_pattern(tiny: GGUFBuilder, tmp_path: Path) -> None:
    with_architecture(tiny, "olmo2", attention__sliding_window=(UINT32, 9))
    tiny.set("olmo2.attention.sliding_window_pattern", ARRAY, [False, True], BOOL)
    assert [layer.window for layer in read(tiny, tmp_path).layers] == [None, 9]
    tiny.set("olmo2.attention.sliding_window_pattern", ARRAY, [True], BOOL)
    with pytest.raises(InvalidModel):
        read(tiny, tmp_path)


def test_granite_without_positional_encoding(tiny: GGUFBuilder, tmp_path: Path) -> None:
    with_architecture(
        tiny, "granite", logit_scale=(FLOAT32, 4.0), rope__scaling__finetuned=(BOOL, False)
    )
    config = read(tiny, tmp_path)
    assert config.logit_scale == 0.25
    assert all(layer.rope is None for layer in config.layers)


def test_rope_factors_are_read_from_their_tensor(
    tiny: GGUFBuilder, tmp_path: Path, new_tensor: Any
) -> None:
    tiny.tensors.append(new_tensor("rope_freqs.weight", (8,)))
    whole = tiny.build()
    values = (1.0, 1.0, 1.5, 2.0, 8.0, 8.0, 8.0, 8.0)
    path = tmp_path / "model.gguf"
    path.write_bytes(whole)
    offset = next(t for t in read_header(path).tensors if t.name == "rope_freqs.weight").offset
    path.write_bytes(whole[:offset] + struct.pack("<8f", *values) + whole[offset + 32 :])
    rope = config_from_gguf(read_header(path)).layers[1].rope
    assert rope is not None
    assert rope.factors == values
    path.write_bytes(whole[:offset] + struct.pack("<8f", *values[:7], 0.0) + whole[offset + 32 :])
    with pytest.raises(InvalidModel, match="rope_freqs"):
        config_from_gguf(read_header(path))


def test_rope_factors_of_the_wrong_length_are_rejected(
    tiny: GGUFBuilder, tmp_path: Path, new_tensor: Any
) -> None:
    tiny.tensors.append(new_tensor("rope_factors_long.weight", (4,)))
    with pytest.raises(InvalidModel, match="rope_factors_long"):
        read(tiny, tmp_path)
