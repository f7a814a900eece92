"""Every family with random weights computes the same logits as transformers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

from ingle.models.families.family_registry import HF_MODEL_TYPES

_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 50000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 24,
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 9.0],
}
_MINISTRAL = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 16,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
_EXPERTS = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 20}
_SIGMOID = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
    "first_k_dense_replace": 1,
}
_DELTA = {
    "num_hidden_layers": 4,
    "head_dim": 16,
    "full_attention_interval": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 12,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
}
_SHARED = {**_EXPERTS, "shared_expert_intermediate_size": 40}
_MAMBA = {
    "layer_types": ["linear_attention", "attention", "linear_attention"],
    "mamba_n_heads": 6,
    "mamba_n_groups": 2,
    "mamba_d_state": 8,
    "shared_intermediate_size": 40,
    "attention_multiplier": 0.11,
}
_NEMOTRON = {
    "layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp", "linear_attention"],
    "head_dim": 16,
    "mamba_num_heads": 6,
    "mamba_head_dim": 8,
    "n_groups": 2,
    "ssm_state_size": 16,
}
_GEMMA4 = {
    "num_hidden_layers": 6,
    "head_dim": 8,
    "global_head_dim": 16,
    "sliding_window": 7,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "final_logit_softcapping": 30.0,
}
_LATENT = {
    "num_key_value_heads": 6,
    "q_lora_rank": 20,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
}
_LATENT_YARN = {**_YARN, "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.707}
_LAYER_INPUTS = {"vocab_size_per_layer_input": 99, "hidden_size_per_layer_input": 12}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama2": ("llama", {"num_key_value_heads": 6}),
    "llama3": ("llama", {"rope_parameters": _LLAMA3, "tie_word_embeddings": True}),
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 12}),
    "llama, linear": ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 3.0}}),
    "llama, yarn": ("llama", {"rope_parameters": _YARN, "head_dim": 32}),
    "mistral": ("mistral", {"sliding_window": 7}),
    "mistral without a window": ("mistral", {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("qwen2", {}),
    "qwen2 with windows": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    ),
    "qwen2.5, yarn": ("qwen2", {"rope_parameters": _YARN, "tie_word_embeddings": True}),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "gemma2": ("gemma2", {"head_dim": 16, "sliding_window": 7, "query_pre_attn_scalar": 24}),
    "gemma3": (
        "gemma3_text",
        {
            "head_dim": 16,
            "sliding_window": 5,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        },
    ),
    "gemma3n": (
        "gemma3n_text",
        {
            **_LAYER_INPUTS,
            "num_hidden_layers": 7,
            "head_dim": 8,
            "sliding_window": 7,
            "layer_types": [*["sliding_attention", "full_attention"] * 3, "sliding_attention"],
            "num_kv_shared_layers": 3,
            "intermediate_size": [72, 72, 40, 72, 72, 40, 40],
            "activation_sparsity_pattern": [0.9, 0.5, 0.0, 0.0, 0.0, 0.0, 0.8],
            "laurel_rank": 12,
        },
    ),
    "gemma3n, three streams": (
        "gemma3n_text",
        {
            "vocab_size_per_layer_input": 60,
            "hidden_size_per_layer_input": 12,
            "num_kv_shared_layers": 0,
            "head_dim": 8,
            "altup_num_inputs": 3,
            "altup_active_idx": 1,
            "altup_correct_scale": False,
        },
    ),
    "gemma4": (
        "gemma4_text",
        {**_GEMMA4, **_LAYER_INPUTS, "num_kv_shared_layers": 3, "use_double_wide_mlp": True},
    ),
    "gemma4, one value": (
        "gemma4_text",
        {
            **_GEMMA4,
            "hidden_size_per_layer_input": 0,
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
        },
    ),
    "gemma4 with experts": (
        "gemma4_text",
        {
            **_GEMMA4,
            "hidden_size_per_layer_input": 0,
            "enable_moe_block": True,
            "num_experts": 6,
            "top_k_experts": 3,
            "moe_intermediate_size": 20,
        },
    ),
    "gemma4_unified": ("gemma4_unified_text", _GEMMA4),
    "phi3": ("phi3", {"sliding_window": 9}),
    "phi3, longrope": (
        "phi3",
        {"rope_parameters": _LONGROPE, "original_max_position_embeddings": 32},
    ),
    "smollm3": ("smollm3", {"no_rope_layer_interval": 2, "num_hidden_layers": 5}),
    "granite": (
        "granite",
        {
            "embedding_multiplier": 12.0,
            "attention_multiplier": 0.11,
            "residual_multiplier": 0.22,
            "logits_scaling": 8.0,
        },
    ),
    "olmo2": ("olmo2", {}),
    "olmo3": ("olmo3", {"sliding_window": 6, "num_hidden_layers": 4}),
    "glm4": ("glm4", {"head_dim": 16, "attention_bias": True}),
    "glm4, quarter": (
        "glm4",
        {"head_dim": 16, "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}},
    ),
    "ministral3": ("ministral3", {"head_dim": 16, "rope_parameters": _MINISTRAL}),
    "ministral3 with a window": (
        "ministral3",
        {"head_dim": 16, "rope_parameters": _MINISTRAL, "sliding_window": 7},
    ),
    "ernie4_5": ("ernie4_5", {"head_dim": 16}),
    "ernie4_5 with biases": ("ernie4_5", {"head_dim": 16, "use_bias": True}),
    "hunyuan": ("hunyuan_v1_dense", {"head_dim": 16}),
    "hunyuan, alpha": (
        "hunyuan_v1_dense",
        {
            "head_dim": 16,
            "attention_bias": True,
            "rope_parameters": {"rope_type": "dynamic", "factor": 1.0, "alpha": 50.0},
        },
    ),
    "mixtral": ("mixtral", {"num_local_experts": 4}),
    "mixtral with a window": ("mixtral", {"num_local_experts": 4, "sliding_window": 7}),
    "qwen2_moe": ("qwen2_moe", {**_EXPERTS, "shared_expert_intermediate_size": 40}),
    "qwen2_moe, mixed layers": (
        "qwen2_moe",
        {**_EXPERTS, "norm_topk_prob": True, "mlp_only_layers": [1], "decoder_sparse_step": 1},
    ),
    "qwen2_moe with windows": (
        "qwen2_moe",
        {**_EXPERTS, "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 2},
    ),
    "qwen3_moe": ("qwen3_moe", {**_EXPERTS, "norm_topk_prob": True, "head_dim": 16}),
    "qwen3_moe, every second layer": ("qwen3_moe", {**_EXPERTS, "decoder_sparse_step": 2}),
    "olmoe": ("olmoe", {"num_experts": 6, "num_experts_per_tok": 3}),
    "olmoe, normalized": (
        "olmoe",
        {"num_experts": 6, "num_experts_per_tok": 3, "norm_topk_prob": True},
    ),
    "glm4_moe": ("glm4_moe", {**_SIGMOID, "routed_scaling_factor": 1.5}),
    "glm4_moe with groups": (
        "glm4_moe",
        {
            **_SIGMOID,
            "n_group": 4,
            "topk_group": 2,
            "n_shared_experts": 2,
            "use_qk_norm": True,
            "attention_bias": True,
            "norm_topk_prob": False,
            "head_dim": 16,
        },
    ),
    "deepseek_v2": (
        "deepseek_v2",
        {**_LATENT, **_SIGMOID, "q_lora_rank": None, "rope_parameters": _LATENT_YARN},
    ),
    "deepseek_v3": (
        "deepseek_v3",
        {
            **_LATENT,
            **_SIGMOID,
            "n_group": 4,
            "topk_group": 2,
            "attention_bias": True,
            "rope_parameters": {**_LATENT_YARN, "mscale": 1.0},
        },
    ),
    "deepseek_v3, not normalized": (
        "deepseek_v3",
        {**_LATENT, **_SIGMOID, "n_group": 1, "topk_group": 1, "norm_topk_prob": False},
    ),
    "glm4_moe_lite": ("glm4_moe_lite", {**_LATENT, **_SIGMOID, "n_shared_experts": 2}),
    "glm4_moe_lite, listed layers": (
        "glm4_moe_lite",
        {**_LATENT, **_SIGMOID, "mlp_layer_types": ["sparse", "dense", "sparse"]},
    ),
    "mistral4": (
        "mistral4",
        {
            **_LATENT,
            **_SIGMOID,
            "n_group": 4,
            "topk_group": 2,
            "rope_parameters": {**_MINISTRAL, "partial_rotary_factor": 8 / 18},
        },
    ),
    "youtu": ("youtu", _LATENT),
    "granitemoe": (
        "granitemoe",
        {
            "num_local_experts": 6,
            "num_experts_per_tok": 3,
            "embedding_multiplier": 12.0,
            "attention_multiplier": 0.11,
            "residual_multiplier": 0.22,
            "logits_scaling": 8.0,
        },
    ),
    "gpt_oss": (
        "gpt_oss",
        {
            "num_local_experts": 6,
            "num_experts_per_tok": 3,
            "head_dim": 16,
            "sliding_window": 7,
            "rope_parameters": {**_YARN, "truncate": False},
        },
    ),
    "lfm2": ("lfm2", {"layer_types": ["conv", "full_attention", "conv"]}),
    "lfm2 with biases": (
        "lfm2",
        {"full_attn_idxs": [2], "conv_bias": True, "conv_L_cache": 4, "block_multiple_of": 8},
    ),
    "qwen3_5": ("qwen3_5_text", _DELTA),
    "qwen3_5, as many keys as values": (
        "qwen3_5_text",
        {**_DELTA, "linear_num_key_heads": 6, "attention_bias": True, "tie_word_embeddings": True},
    ),
    "qwen3_5_moe": ("qwen3_5_moe_text", {**_DELTA, **_SHARED}),
    "qwen3_next": ("qwen3_next", {**_DELTA, **_SHARED, "norm_topk_prob": False}),
    "qwen3_next, mixed layers": ("qwen3_next", {**_DELTA, **_SHARED, "mlp_only_layers": [1]}),
    "granitemoehybrid": (
        "granitemoehybrid",
        {
            **_MAMBA,
            "num_local_experts": 0,
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.22,
            "logits_scaling": 8.0,
            "mamba_proj_bias": True,
        },
    ),
    "granitemoehybrid with experts": (
        "granitemoehybrid",
        {
            **_MAMBA,
            "num_local_experts": 6,
            "num_experts_per_tok": 3,
            "position_embedding_type": "rope",
            "mamba_conv_bias": False,
        },
    ),
    "nemotron_h": ("nemotron_h", _NEMOTRON),
    "nemotron_h with biases": ("nemotron_h", {**_NEMOTRON, "mlp_bias": True, "use_bias": True}),
    "nemotron_h with experts": (
        "nemotron_h",
        {
            **_NEMOTRON,
            **_SIGMOID,
            "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp", "moe"],
            "moe_shared_expert_intermediate_size": 40,
            "routed_scaling_factor": 2.5,
        },
    ),
    "nemotron_h with groups of experts": (
        "nemotron_h",
        {
            **_NEMOTRON,
            **_SIGMOID,
            "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"],
            "moe_shared_expert_intermediate_size": 40,
            "moe_latent_size": 28,
            "n_group": 4,
            "topk_group": 2,
            "norm_topk_prob": False,
        },
    ),
    "lfm2_moe": (
        "lfm2_moe",
        {
            **_EXPERTS,
            "layer_types": ["conv", "full_attention", "conv"],
            "num_dense_layers": 1,
            "routed_scaling_factor": 1.5,
        },
    ),
    "lfm2_moe without corrections": (
        "lfm2_moe",
        {
            **_EXPERTS,
            "layer_types": ["conv", "full_attention", "conv"],
            "num_dense_layers": 0,
            "use_expert_bias": False,
            "norm_topk_prob": False,
        },
    ),
    "seed_oss": ("seed_oss", {"head_dim": 16}),
    "seed_oss with biases": (
        "seed_oss",
        {"head_dim": 16, "attention_out_bias": True, "mlp_bias": True},
    ),
}


def test_every_model_type_is_compared() -> None:
    # The text half of Qwen2.5-VL is no model of its own: tests/backends/cuda/test_pictures.py.
    kinds = HF_MODEL_TYPES.keys() - {"qwen2_5_vl_text"}
    assert {kind for kind, _ in CASES.values()} == kinds


@pytest.mark.parametrize("name", HF_MODEL_TYPES)
def test_defaults_equal_those_of_transformers(name: str) -> None:
    """The models above state all their settings; a file may leave some out."""
    transformers: Any = import_module("transformers")
    config = transformers.AutoConfig.for_model(name).to_dict()
    rope = config.get("rope_parameters", {})
    kind = HF_MODEL_TYPES[name][1]
    assert kind.context == config["max_position_embeddings"]
    assert kind.epsilon == config[kind.epsilon_key]
    assert kind.theta == rope.get("full_attention", rope).get("rope_theta", 10000.0)
    assert kind.rotated_share == rope.get("partial_rotary_factor", 1.0)
    assert kind.activation == config.get("hidden_activation", config.get("hidden_act", "silu"))
    assert kind.tied == config.get("tie_word_embeddings", False)


@pytest.mark.parametrize("case", CASES)
def test_logits_equal_those_of_transformers(
    case: str, make_random_model: Any, compute_logits: Any, tokens: torch.Tensor
) -> None:
    kind, settings = CASES[case]
    model = make_random_model(kind, **settings)
    expected = model.logits(tokens)
    found = compute_logits(model.config, model.canonical(), tokens)
    assert found.dtype == torch.float32
    assert float((found - expected).abs().max() / expected.abs().max()) < 1e-4


def test_longrope_uses_short_factors_for_short_contexts(
    make_random_model: Any, compute_logits: Any, tokens: torch.Tensor
) -> None:
    _, settings = CASES["phi3, longrope"]
    model = make_random_model("phi3", **settings)
    tokens = tokens[:32]
    expected = model.logits(tokens)
    short = compute_logits(model.config, model.canonical(), tokens, context=32)
    long = compute_logits(model.config, model.canonical(), tokens)
    assert torch.allclose(short, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
    assert not torch.allclose(long, expected, rtol=0, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "olmo2"])
def test_half_precision_is_close(
    kind: str, dtype: torch.dtype, make_random_model: Any, tokens: torch.Tensor
) -> None:
    from ingle.kernels.operations import Operations
    from ingle.models.layers.transformer import Transformer
    from tests.harness.full_attention import FullAttention

    model = make_random_model(kind)
    config, places = model.config, torch.arange(len(tokens))
    ours = Transformer(
        config, model.canonical(), device=torch.device("cpu"), operations=Operations(dtype)
    )
    found = ours.forward(tokens, places, FullAttention(config), places[-3:])
    expected = model.logits(tokens)[-3:]
    assert found.shape == expected.shape
    assert found.dtype == torch.float32
    assert float((found - expected).norm() / expected.norm()) < 0.03
