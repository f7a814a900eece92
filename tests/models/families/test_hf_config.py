from __future__ import annotations

from typing import Any

import pytest

from ingle.models.config.model_config import ModelConfig
from ingle.models.errors import InvalidModel, UnsupportedModel
from ingle.models.families.hf_config import config_from_hf

pytestmark = pytest.mark.quick

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


DEEPSEEK_V2_LITE: dict[str, Any] = {
    "model_type": "deepseek_v2",
    "first_k_dense_replace": 1,
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 1408,
    "n_group": 1,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "norm_topk_prob": False,
    "num_attention_heads": 16,
    "num_experts_per_tok": 6,
    "num_hidden_layers": 27,
    "num_key_value_heads": 16,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 40,
        "mscale": 0.707,
        "mscale_all_dim": 0.707,
        "original_max_position_embeddings": 4096,
        "type": "yarn",
    },
    "rope_theta": 10000,
    "routed_scaling_factor": 1.0,
    "scoring_func": "softmax",
    "topk_group": 1,
    "topk_method": "greedy",
    "v_head_dim": 128,
    "vocab_size": 102400,
}


def windows(config: ModelConfig) -> list[int | None]:
    return [layer.window for layer in config.layers]


def test_both_forms_of_rope_settings_are_equivalent() -> None:
    old = config_from_hf({**LLAMA, "rope_theta": 500000.0, "rope_scaling": LLAMA3})
    new = config_from_hf({**LLAMA, "rope_parameters": {**LLAMA3, "rope_theta": 500000.0}})
    assert old == new
    rope = old.layers[0].rope
    assert rope is not None
    assert rope.factors[0] == 1.0
    assert rope.factors[-1] == 8.0
    assert list(rope.factors) == sorted(rope.factors)


def test_absent_and_null_settings_are_defaults() -> None:
    config = config_from_hf({**LLAMA, "head_dim": None, "rope_scaling": None})
    assert config.head_size == 16
    assert config.layers[0].rope is not None
    assert config.layers[0].rope.theta == 10000.0
    assert not config.tied_embeddings


def test_mistral_without_sliding_window() -> None:
    mistral = {**LLAMA, "model_type": "mistral"}
    assert windows(config_from_hf(mistral)) == [4096] * 4
    assert windows(config_from_hf({**mistral, "sliding_window": None})) == [None] * 4


def test_qwen_sliding_windows_require_use_sliding_window() -> None:
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 9, "max_window_layers": 3}
    assert windows(config_from_hf(qwen)) == [None] * 4
    assert windows(config_from_hf({**qwen, "use_sliding_window": True})) == [None] * 3 + [9]


def test_latents_of_deepseek_v2_lite() -> None:
    config = config_from_hf(DEEPSEEK_V2_LITE)
    assert (config.num_kv_heads, config.head_size) == (1, 576)
    assert config.attention_scale == pytest.approx(192**-0.5 * 1.2608**2, rel=1e-4)
    rope = config.layers[0].rope
    assert rope is not None
    assert (rope.size, rope.attention_factor) == (64, 1.0)
    assert config.layers[0].experts is None
    experts = config.layers[1].experts
    assert experts is not None
    assert (experts.count, experts.used, experts.shared_width) == (64, 6, 2816)
    assert not experts.normalized
    with pytest.raises(UnsupportedModel, match="group_limited_greedy"):
        config_from_hf(
            {
                **DEEPSEEK_V2_LITE,
                "topk_method": "group_limited_greedy",
                "n_group": 8,
                "topk_group": 3,
            }
        )
    with pytest.raises(UnsupportedModel, match="rotates the halves"):
        config_from_hf({**DEEPSEEK_V2_LITE, "rope_interleave": False})
    narrow = {"hidden_size": 400, "num_attention_heads": 16}  # which are 25 elements a head
    assert config_from_hf({**DEEPSEEK_V2_LITE, **narrow}).head_size == 576
    with pytest.raises(InvalidModel, match="63 elements of a head"):
        config_from_hf({**DEEPSEEK_V2_LITE, "qk_rope_head_dim": 63})


def test_text_config_of_multimodal_gemma3() -> None:
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    config = config_from_hf({"model_type": "gemma3", "text_config": text, "vision_config": {}})
    assert config.architecture == "gemma3"
    assert (config.num_heads, config.num_kv_heads, config.head_size) == (8, 4, 256)
    assert config.tied_embeddings
    assert windows(config)[:7] == [1024] * 5 + [None, 1024]
    local, global_ = config.layers[0].rope, config.layers[5].rope
    assert local is not None
    assert global_ is not None
    assert (local.theta, local.factors) == (10000.0, ())
    assert (global_.theta, set(global_.factors)) == (1000000.0, {8.0})


def test_text_config_of_multimodal_qwen35() -> None:
    text = {
        "model_type": "qwen3_5_moe_text",
        "hidden_size": 2048,
        "num_hidden_layers": 40,
        "moe_intermediate_size": 512,
    }
    config = config_from_hf({"model_type": "qwen3_5_moe", "text_config": text})
    assert config.architecture == "qwen35moe"
    assert config.key_layers == tuple(range(3, 40, 4))
    # Of each recurrent layer three inputs of a convolution, and a matrix a head.
    assert config.state_bytes == 30 * 4 * (3 * (2 * 16 + 32) * 128 + 32 * 128 * 128)
    rope, experts = config.layers[3].rope, config.layers[0].experts
    assert rope is not None
    assert experts is not None
    assert (rope.size, experts.count, experts.used, experts.shared_width) == (64, 256, 8, 512)


@pytest.mark.parametrize(
    ("half", "architecture", "temperature"),
    [("mistral", "llama", 0.0), ("ministral3", "mistral3", 0.1), (None, "llama", 0.0)],
)
def test_text_config_of_multimodal_mistral(
    half: str | None, architecture: str, temperature: float
) -> None:
    """Mistral Small 3.1 and Ministral 3 have the same `model_type`, and another text half."""
    yarn = {
        "rope_type": "yarn",
        "factor": 16.0,
        "original_max_position_embeddings": 16384,
        "llama_4_scaling_beta": 0.1,
    }
    rope = yarn if half == "ministral3" else {"rope_theta": 1e9}
    text = {**LLAMA, "model_type": half, "rope_parameters": rope}
    config = config_from_hf({"model_type": "mistral3", "text_config": text, "vision_config": {}})
    assert config.architecture == architecture
    assert config.layers[0].rope is not None
    assert config.layers[0].rope.temperature == temperature


def test_smollm3_has_no_rope_in_every_fourth_layer() -> None:
    config = config_from_hf({**LLAMA, "model_type": "smollm3"})
    assert [layer.rope is None for layer in config.layers] == [False, False, False, True]
    config = config_from_hf({**LLAMA, "model_type": "smollm3", "no_rope_layers": [0, 1, 1, 0]})
    assert [layer.rope is None for layer in config.layers] == [True, False, False, True]


UNSUPPORTED: list[dict[str, Any]] = [
    {"model_type": "mamba"},
    {"model_type": "llava", "text_config": {"model_type": "llama"}},
    {"hidden_act": "relu2"},
    {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
    {"model_type": "gemma2", "use_bidirectional_attention": True},
    {"model_type": "nemotron_h", "hybrid_override_pattern": "MX*E"},
    {"model_type": "gemma4_text", "use_bidirectional_attention": "all"},
    {"model_type": "nemotron_h", "hybrid_override_pattern": "M-*-", "mlp_hidden_act": "gelu"},
    {"model_type": "granitemoehybrid", "time_step_limit": [0.01, 0.1]},
]


@pytest.mark.parametrize("changes", UNSUPPORTED)
def test_unsupported_settings_are_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedModel) as caught:
        config_from_hf({**LLAMA, **changes})
    assert "GGUF" in (caught.value.hint or "")


WRONG: list[tuple[str, Any]] = [
    ("model_type", None),
    ("model_type", 7),
    ("hidden_size", None),
    ("hidden_size", -64),
    ("hidden_size", 64.5),
    ("hidden_size", True),
    ("hidden_size", 1 << 40),
    ("hidden_size", "64" * 10000),
    ("num_attention_heads", 0),
    ("num_key_value_heads", 3),
    ("num_key_value_heads", 8),
    ("num_hidden_layers", 10**9),
    ("head_dim", 7),
    ("vocab_size", [100]),
    ("rms_norm_eps", 0),
    ("rms_norm_eps", float("nan")),
    ("max_position_embeddings", 0),
    ("tie_word_embeddings", "yes"),
    ("rope_theta", float("inf")),
    ("rope_theta", 10**400),
    ("rope_theta", 1),
    ("intermediate_size", 10**400),
    ("partial_rotary_factor", 1.5),
    ("partial_rotary_factor", 0.01),
    ("rope_scaling", [1, 2]),
    ("rope_scaling", {"type": "linear"}),
    ("rope_scaling", {"type": "linear", "factor": 0.5}),
    ("rope_scaling", {**LLAMA3, "low_freq_factor": 4.0}),
    ("rope_scaling", {**LLAMA3, "factor": "8"}),
    ("rope_scaling", {"type": "longrope", "long_factor": [1.0], "short_factor": [1.0]}),
    ("rope_scaling", {"type": "longrope", "long_factor": [0.0] * 8, "short_factor": [1.0] * 8}),
    ("rope_scaling", {"type": "yarn", "factor": 4.0, "beta_fast": "fast"}),
    ("rope_scaling", {"type": "mrope", "mrope_section": [2, 2, 2, 2]}),
    ("rope_scaling", {"type": "mrope", "mrope_section": [0] * 1000}),
    ("text_config", "llama"),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_invalid_settings_are_rejected(key: str, value: Any) -> None:
    with pytest.raises(InvalidModel) as caught:
        config_from_hf({**LLAMA, key: value})
    assert caught.value.message.endswith(".")
    assert len(caught.value.message) < 300
    assert caught.value.hint
