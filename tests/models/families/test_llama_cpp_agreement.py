"""Every family, read from a GGUF file, computes the same logits as llama.cpp."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import numpy as np
import pytest
import torch

from ingle.models.config.model_config import Activation, RopeConfig
from ingle.models.families.family_registry import FAMILIES, HF_MODEL_TYPES
from ingle.models.families.gguf_config import config_from_gguf
from ingle.models.weights.gguf_tensor_names import GGUFTensorNames, name_in_gguf, permute_for_gguf
from ingle.models.weights.gguf_weights import GGUFWeights

_INTERLEAVED = (
    *("llama", "granite", "granitehybrid", "granitemoe", "smollm3", "glm4", "mistral3"),
    "ernie4_5",
)
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
_WIDE = {"num_attention_heads": 3, "num_key_value_heads": 1}  # heads of 16
_EXPERTS = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 20}
_EXPERT_KEYS = {"expert_count": 6, "expert_used_count": 3, "expert_feed_forward_length": 20}
_SHARED = {**_EXPERTS, "shared_expert_intermediate_size": 40}
_SHARED_KEYS = {**_EXPERT_KEYS, "expert_shared_feed_forward_length": 40}
_DELTA = {
    "num_hidden_layers": 4,
    "head_dim": 16,
    "full_attention_interval": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
}
_DELTA_KEYS = {
    "ssm.conv_kernel": 4,
    "ssm.state_size": 16,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 6,
    "ssm.inner_size": 96,
    "full_attention_interval": 2,
    "rope.dimension_count": 4,
}
_SECTIONS = {"rope.dimension_sections": [1, 1, 0, 0]}
_GRANITE = {
    "embedding_multiplier": 12.0,
    "attention_multiplier": 0.11,
    "residual_multiplier": 0.22,
    "logits_scaling": 8.0,
}
_GRANITE_KEYS = {
    "attention.scale": 0.11,
    "embedding_scale": 12.0,
    "residual_scale": 0.22,
    "logit_scale": 8.0,
}
_MAMBA = {
    **_GRANITE,
    "layer_types": ["linear_attention", "attention", "linear_attention"],
    "mamba_n_heads": 6,
    "mamba_n_groups": 2,
    "mamba_d_state": 16,
    "shared_intermediate_size": 40,
}
_MAMBA_KEYS = {
    **_GRANITE_KEYS,
    "attention.head_count_kv": [0, 2, 0],
    "rope.scaling.finetuned": False,
    "ssm.conv_kernel": 4,
    "ssm.state_size": 16,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 6,
    "ssm.inner_size": 96,
}
_GEMMA4 = {
    "num_hidden_layers": 6,
    "head_dim": 8,
    "global_head_dim": 16,
    "sliding_window": 7,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "hidden_size_per_layer_input": 0,
    "final_logit_softcapping": 30.0,
}
_GEMMA4_KEYS = {
    "attention.sliding_window": 7,
    "attention.sliding_window_pattern": [True, True, False] * 2,
    "attention.key_length_swa": 8,
    "attention.value_length_swa": 8,
    "rope.freq_base_swa": 10000.0,
    "rope.dimension_count_swa": 8,
    "final_logit_softcapping": 30.0,
}
_LATENT = {
    "num_key_value_heads": 6,
    "q_lora_rank": 20,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
}
_LATENT_KEYS = {
    "attention.value_length": 24,
    "attention.key_length_mla": 18,
    "attention.value_length_mla": 12,
    "attention.kv_lora_rank": 24,
    "attention.q_lora_rank": 20,
    "rope.dimension_count": 8,
    "expert_count": 8,
    "expert_used_count": 3,
    "expert_feed_forward_length": 20,
    "expert_shared_count": 1,
}
_LATENT_SIGMOID = {
    "expert_gating_func": 2,
    "expert_weights_norm": True,
    "expert_weights_scale": 1.5,
    "leading_dense_block_count": 1,
}
# A model type of transformers, its settings, and the matching metadata of the file's header.
_CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("llama", {}, {}),
    "llama3": ("llama", {"rope_parameters": _LLAMA3, "tie_word_embeddings": True}, {}),
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True}, {}),
    "llama, linear": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 3.0}},
        {"rope.scaling.type": "linear", "rope.scaling.factor": 3.0},
    ),
    "qwen2": ("qwen2", {}, {}),
    "qwen2.5, yarn": (
        "qwen2",
        {"rope_parameters": _YARN, "tie_word_embeddings": True, **_WIDE},
        {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 64,
        },
    ),
    "qwen3": ("qwen3", {"head_dim": 16}, {}),
    "gemma2": (
        "gemma2",
        {"head_dim": 16, "sliding_window": 7, "query_pre_attn_scalar": 16},
        {
            "attention.sliding_window": 7,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
    ),
    "gemma3": (
        "gemma3_text",
        {
            "head_dim": 16,
            "sliding_window": 5,
            "query_pre_attn_scalar": 16,
            "num_hidden_layers": 7,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        },
        {
            "attention.sliding_window": 5,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
    ),
    "gemma3n": (
        "gemma3n_text",
        {
            "num_hidden_layers": 25,
            "head_dim": 8,
            "sliding_window": 7,
            "num_kv_shared_layers": 5,
            "intermediate_size": 2048,
            "vocab_size_per_layer_input": 99,
        },
        {
            "attention.sliding_window": 7,
            "attention.sliding_window_pattern": [*[True] * 4, False] * 5,
            "attention.shared_kv_layers": 5,
            "embedding_length_per_layer_input": 256,
            "rope.freq_base_swa": 10000.0,
            "altup.num_inputs": 4,
            "altup.active_idx": 0,
        },
    ),
    "gemma4": (
        "gemma4_text",
        {
            **_GEMMA4,
            "num_kv_shared_layers": 3,
            "use_double_wide_mlp": True,
            "hidden_size_per_layer_input": 12,
            "vocab_size_per_layer_input": 99,
        },
        {
            **_GEMMA4_KEYS,
            "attention.shared_kv_layers": 3,
            "feed_forward_length": [72] * 3 + [144] * 3,
            "embedding_length_per_layer_input": 12,
        },
    ),
    "gemma4 with experts, one value": (
        "gemma4_text",
        {
            **_GEMMA4,
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
            "enable_moe_block": True,
            "num_experts": 6,
            "top_k_experts": 3,
            "moe_intermediate_size": 20,
        },
        {
            **_GEMMA4_KEYS,
            **_EXPERT_KEYS,
            "attention.head_count_kv": [2, 2, 1] * 2,
            "embedding_length_per_layer_input": 0,
        },
    ),
    "phi3": ("phi3", {}, {}),
    "phi3, longrope": (
        "phi3",
        {"rope_parameters": _LONGROPE, "original_max_position_embeddings": 32},
        {"rope.scaling.original_context_length": 32, "rope.dimension_count": 4},
    ),
    "smollm3": ("smollm3", {"num_hidden_layers": 5}, {}),
    "granite": (
        "granite",
        _GRANITE,
        _GRANITE_KEYS,
    ),
    "olmo2": ("olmo2", {}, {}),
    "olmo3": (
        "olmo3",
        {"sliding_window": 6, "num_hidden_layers": 4},
        {
            "attention.sliding_window": 6,
            "attention.sliding_window_pattern": [True, True, True, False],
        },
    ),
    "glm4": ("glm4", {"head_dim": 16, "attention_bias": True}, {"rope.dimension_count": 8}),
    "mistral3": (
        "ministral3",
        {"head_dim": 16, "rope_parameters": _MINISTRAL},
        {
            "attention.temperature_scale": 0.1,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 16.0,
            "rope.scaling.original_context_length": 16,
            "rope.scaling.yarn_log_multiplier": 1.0,
        },
    ),
    "ernie4_5": ("ernie4_5", {"head_dim": 16, "tie_word_embeddings": True}, {}),
    "hunyuan": (
        "hunyuan_v1_dense",
        {
            "head_dim": 16,
            "rope_parameters": {"rope_type": "dynamic", "factor": 1.0, "alpha": 50.0},
        },
        {},
    ),
    "seed_oss": ("seed_oss", {"head_dim": 16}, {}),
    "qwen35": ("qwen3_5_text", _DELTA, {**_DELTA_KEYS, **_SECTIONS}),
    "qwen35, listed layers": (
        "qwen3_5_text",
        {**_DELTA, "layer_types": [*["linear_attention"] * 3, "full_attention"]},
        {**_DELTA_KEYS, **_SECTIONS, "attention.recurrent_layers": [True, True, True, False]},
    ),
    "qwen35moe": (
        "qwen3_5_moe_text",
        {**_DELTA, **_SHARED},
        {**_DELTA_KEYS, **_SECTIONS, **_SHARED_KEYS},
    ),
    "qwen3next": ("qwen3_next", {**_DELTA, **_SHARED}, {**_DELTA_KEYS, **_SHARED_KEYS}),
    "granitehybrid": ("granitemoehybrid", {**_MAMBA, "num_local_experts": 0}, _MAMBA_KEYS),
    "granitehybrid with experts": (
        "granitemoehybrid",
        {**_MAMBA, "num_local_experts": 6, "num_experts_per_tok": 3},
        {
            **_MAMBA_KEYS,
            "expert_count": 6,
            "expert_used_count": 3,
            "expert_shared_feed_forward_length": 40,
        },
    ),
    "nemotron_h": (
        "nemotron_h",
        {
            "layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp"],
            "head_dim": 16,
            "mamba_num_heads": 6,
            "mamba_head_dim": 16,
            "n_groups": 2,
            "ssm_state_size": 16,
        },
        {
            "attention.head_count_kv": [0, 0, 2, 0],
            "feed_forward_length": [0, 72, 0, 72],
            "attention.layer_norm_epsilon": 1e-5,
            "ssm.conv_kernel": 4,
            "ssm.state_size": 16,
            "ssm.group_count": 2,
            "ssm.time_step_rank": 6,
            "ssm.inner_size": 96,
        },
    ),
    "nemotron_h with experts": (
        "nemotron_h",
        {
            "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"],
            "head_dim": 16,
            "mamba_num_heads": 6,
            "mamba_head_dim": 16,
            "n_groups": 2,
            "ssm_state_size": 16,
            "n_routed_experts": 6,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 20,
            "moe_shared_expert_intermediate_size": 40,
            "moe_latent_size": 28,
            "routed_scaling_factor": 2.5,
        },
        {
            **_SHARED_KEYS,
            "expert_shared_count": 1,
            "expert_weights_norm": True,
            "expert_weights_scale": 2.5,
            "moe_latent_size": 28,
            "attention.head_count_kv": [0, 0, 2, 0],
            "feed_forward_length": [0, 20, 0, 20],
            "attention.layer_norm_epsilon": 1e-5,
            "ssm.conv_kernel": 4,
            "ssm.state_size": 16,
            "ssm.group_count": 2,
            "ssm.time_step_rank": 6,
            "ssm.inner_size": 96,
        },
    ),
    "lfm2moe": (
        "lfm2_moe",
        {**_EXPERTS, "layer_types": ["conv", "full_attention", "conv"], "num_dense_layers": 1},
        {
            **_EXPERT_KEYS,
            "attention.head_count_kv": [0, 2, 0],
            "shortconv.l_cache": 3,
            "leading_dense_block_count": 1,
            "expert_gating_func": 2,
        },
    ),
    "lfm2": (
        "lfm2",
        {"layer_types": ["conv", "full_attention", "conv"]},
        {"attention.head_count_kv": [0, 2, 0], "shortconv.l_cache": 3},
    ),
    "mixtral": (
        "mixtral",
        {"num_local_experts": 4, "rope_parameters": {"rope_theta": 1e6}},
        {"expert_count": 4, "expert_used_count": 2},
    ),
    "qwen2moe": (
        "qwen2_moe",
        {**_EXPERTS, "shared_expert_intermediate_size": 40},
        {**_EXPERT_KEYS, "expert_shared_feed_forward_length": 40},
    ),
    "qwen3moe": ("qwen3_moe", {**_EXPERTS, "norm_topk_prob": True}, _EXPERT_KEYS),
    "glm4moe": (
        "glm4_moe",
        {
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 20,
            "n_shared_experts": 2,
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 1.5,
            "use_qk_norm": True,
            "attention_bias": True,
            "head_dim": 16,
        },
        {
            "expert_count": 8,
            "expert_used_count": 3,
            "expert_feed_forward_length": 20,
            "expert_group_count": 4,
            "expert_group_used_count": 2,
            "expert_shared_count": 2,
            "expert_gating_func": 2,
            "expert_weights_norm": True,
            "expert_weights_scale": 1.5,
            "leading_dense_block_count": 1,
            "rope.dimension_count": 8,
        },
    ),
    "deepseek2": (
        "deepseek_v2",
        {
            **_LATENT,
            "n_shared_experts": 1,
            "rope_parameters": {**_YARN, "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.707},
        },
        {
            **_LATENT_KEYS,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 40.0,
            "rope.scaling.original_context_length": 64,
            "rope.scaling.yarn_log_multiplier": 0.0707,
        },
    ),
    "deepseek2, queries at once, as it was once written": (
        "deepseek_v2",
        {
            **_LATENT,
            "q_lora_rank": None,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "num_hidden_layers": 26,
        },
        {
            **_LATENT_KEYS,
            "attention.head_count_kv": 6,
            "attention.key_length": 18,
            "attention.value_length": 12,
            "attention.key_length_mla": None,
            "attention.value_length_mla": None,
            "attention.q_lora_rank": None,
            "leading_dense_block_count": 1,
        },
    ),
    "deepseek2, sigmoid": (
        "deepseek_v3",
        {
            **_LATENT,
            "first_k_dense_replace": 1,
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 1.5,
        },
        {
            **_LATENT_KEYS,
            **_LATENT_SIGMOID,
            "expert_group_count": 4,
            "expert_group_used_count": 2,
        },
    ),
    "deepseek2 of GLM": (
        "glm4_moe_lite",
        {**_LATENT, "routed_scaling_factor": 1.5},
        {**_LATENT_KEYS, **_LATENT_SIGMOID},
    ),
    "deepseek2 without experts": (
        "youtu",
        {**_LATENT, "tie_word_embeddings": True},
        {
            **_LATENT_KEYS,
            "expert_count": 0,
            "expert_used_count": 0,
            "expert_shared_count": 0,
            "leading_dense_block_count": 3,
        },
    ),
    "mistral4": (
        "mistral4",
        {
            **_LATENT,
            "rope_parameters": {**_MINISTRAL, "partial_rotary_factor": 8 / 18},
        },
        {
            **_LATENT_KEYS,
            "expert_weights_norm": True,
            "attention.temperature_scale": 0.1,
            "attention.temperature_length": 16,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 16.0,
            "rope.scaling.original_context_length": 16,
            "rope.scaling.yarn_log_multiplier": 0.1,
        },
    ),
    "gpt-oss": (
        "gpt_oss",
        {
            "num_local_experts": 6,
            "num_experts_per_tok": 3,
            "head_dim": 16,
            "sliding_window": 7,
            "rope_parameters": _YARN,
        },
        {
            "expert_count": 6,
            "expert_used_count": 3,
            "expert_feed_forward_length": 72,
            "attention.sliding_window": 7,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 64,
        },
    ),
    "granitemoe": (
        "granitemoe",
        {**_GRANITE, "num_local_experts": 6, "num_experts_per_tok": 3},
        {**_GRANITE_KEYS, "expert_count": 6, "expert_used_count": 3},
    ),
    "olmoe": (
        "olmoe",
        {"num_experts": 6, "num_experts_per_tok": 3, "num_key_value_heads": 6},
        {"expert_count": 6, "expert_used_count": 3},
    ),
}


def _write(path: Path, model: Any, header: dict[str, Any]) -> None:
    """Write the model like llama.cpp's converter, all in F32."""
    config, weights = model.config, model.canonical()
    writer: Any = gguf.GGUFWriter(path, config.architecture)
    for key, value in {**_header(config), **header}.items():
        if value is not None:
            _add(writer, f"{config.architecture}.{key}", value)
    writer.add_tokenizer_model("no_vocab")
    tensors: dict[str, torch.Tensor] = {name: weights.get(name) for name in weights.names}
    if config.latent is not None:
        for name, tensor in tensors.items():
            tensors[name] = permute_for_gguf(name, tensor, config)
        _stack_latents(tensors, config, joined=header["attention.key_length_mla"] is None)
    if config.architecture in _INTERLEAVED:
        for name, tensor in tensors.items():
            if ".attn_q." in name or ".attn_k." in name:
                size = header.get("rope.dimension_count", config.head_size)
                tensors[name] = _neighbours(tensor, config.head_size, size)
    if config.architecture == "phi3":
        _fuse(tensors, "attn_qkv", "attn_q", "attn_k", "attn_v")
    if config.architecture in ("phi3", "glm4"):
        _fuse(tensors, "ffn_up", "ffn_gate", "ffn_up")
    for name in [name for name in tensors if ".ssm_" in name]:
        tensors[name] = permute_for_gguf(name, tensors[name], config)
    for name in [
        name for name in tensors if config.architecture == "gemma4" and "_gate_exps" in name
    ]:
        halves = (tensors.pop(name.replace("gate_exps", half)) for half in ("gate_exps", "up_exps"))
        count = config.layers[0].experts.count
        both = torch.cat([half.view(count, -1, config.hidden_size) for half in halves], 1)
        tensors[name.replace("gate_exps", "gate_up_exps")] = both.flatten(0, 1)
    if config.architecture == "gemma3n":  # llama.cpp wants keys where they have no use
        for layer, kind in enumerate(config.layers):
            for part in ("attn_k", "attn_v", "attn_k_norm") if kind.kv_layer else ():
                other = tensors[f"blk.0.{part}.weight"]
                tensors[f"blk.{layer}.{part}.weight"] = torch.full_like(other, 7.0)
    for name in ("altup_proj", "altup_unembd_proj"):
        if each := [tensors.pop(part) for part in list(tensors) if part.startswith(f"{name}.")]:
            tensors[f"{name}.weight"] = torch.stack(each)
    tensors = {name_in_gguf(name, config): each for name, each in tensors.items()}
    ropes = [layer.rope for layer in config.layers if layer.rope is not None]
    ropes.append(RopeConfig(theta=1e4, size=config.head_size))
    rope = next((rope for rope in ropes if rope.factors), ropes[0])
    if rope.long_factors:
        tensors["rope_factors_short.weight"] = torch.tensor(rope.factors)
        tensors["rope_factors_long.weight"] = torch.tensor(rope.long_factors)
    elif rope.factors and "rope.scaling.type" not in header:
        tensors["rope_freqs.weight"] = torch.tensor(rope.factors)
    for name, tensor in tensors.items():
        if "_exps." in name:
            count = config.layers[-1].experts.count
            if name.endswith("weight"):
                tensor = tensor.reshape(count, -1, *tensor.shape[1:])
        writer.add_tensor(name, tensor.float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _header(config: Any) -> dict[str, Any]:
    ropes = [layer.rope for layer in config.layers if layer.rope is not None]
    rope = ropes[-1] if ropes else RopeConfig(theta=1e4, size=config.head_size)
    keys: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "context_length": config.context,
        "embedding_length": config.hidden_size,
        "block_count": config.num_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.num_kv_heads,
        "attention.key_length": config.head_size,
        "attention.value_length": config.head_size,
        "attention.layer_norm_rms_epsilon": config.norm_epsilon,
        "rope.dimension_count": config.head_size,
        "rope.freq_base": rope.theta,
    }
    if rope.long_factors:
        keys["rope.scaling.attn_factor"] = rope.attention_factor
    return keys


def _add(writer: Any, key: str, value: Any) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def _neighbours(tensor: torch.Tensor, head_size: int, size: int) -> torch.Tensor:
    """Interleave both halves of the first `size` rows of each head, for RoPE of adjacent pairs."""
    heads = tensor.reshape(-1, head_size, *tensor.shape[1:])
    rest = tensor.shape[1:]
    halves = heads[:, :size].reshape(-1, 2, size // 2, *rest).swapaxes(1, 2)
    turned = halves.reshape(-1, size, *rest)
    return torch.cat((turned, heads[:, size:]), 1).reshape(tensor.shape)


def _fuse(tensors: dict[str, torch.Tensor], whole: str, *parts: str) -> None:
    """Join the parts in each layer."""
    for name in [name for name in tensors if f".{parts[0]}.weight" in name]:
        each = [tensors.pop(name.replace(parts[0], part)) for part in parts]
        tensors[name.replace(parts[0], whole)] = torch.cat(each)


def _stack_latents(tensors: dict[str, torch.Tensor], config: Any, *, joined: bool) -> None:
    """Give each head a matrix, as converters do; once they joined those of keys and of values."""
    heads = config.num_heads
    for name in [name for name in tensors if ".attn_k_b." in name]:
        other = name.replace("attn_k_b", "attn_v_b")
        keys = tensors[name].view(heads, -1, config.latent.key_size)
        values = tensors[other].view(heads, config.latent.value_size, -1)
        if joined:
            del tensors[name], tensors[other]
            both = torch.cat((keys.transpose(1, 2), values), 1).flatten(0, 1)
            tensors[name.replace("attn_k_b", "attn_kv_b")] = both
        else:
            tensors[name], tensors[other] = keys, values


@pytest.fixture(scope="module")
def quiet_llama_cpp() -> Iterator[None]:
    """Silence llama.cpp's log, which goes to stderr."""

    def ignore(_level: int, _text: bytes, _data: object) -> None:
        return

    silent = llama_cpp.llama_log_callback(ignore)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    yield
    llama_cpp.llama_log_set(llama_cpp.llama_log_callback(0), ctypes.c_void_p(0))


def _llama_cpp_logits(path: Path, tokens: torch.Tensor, context: int) -> torch.Tensor:
    """Return the logits of every token, with an fp32 KV cache."""
    model = llama_cpp.llama_model_load_from_file(
        os.fsencode(path), llama_cpp.llama_model_default_params()
    )
    assert model
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = context, context, context
    params.n_threads = params.n_threads_batch = 1
    params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
    params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    handle = llama_cpp.llama_init_from_model(model, params)
    assert handle
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for index, token in enumerate(tokens):
        batch.token[index], batch.pos[index], batch.logits[index] = int(token), index, 1
        batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
    try:
        assert llama_cpp.llama_decode(handle, batch) == 0
        raw: Any = llama_cpp.llama_get_logits(handle)
        vocab = llama_cpp.llama_model_get_vocab(model)
        assert vocab
        size = llama_cpp.llama_vocab_n_tokens(vocab)
        return torch.tensor(np.ctypeslib.as_array(raw, (len(tokens), size)))
    finally:
        llama_cpp.llama_batch_free(batch)
        llama_cpp.llama_free(handle)
        llama_cpp.llama_model_free(model)


def test_every_family_is_compared() -> None:
    names = {family.name for family in FAMILIES.values()}
    assert {HF_MODEL_TYPES[kind][0].name for kind, *_ in _CASES.values()} == names


@pytest.mark.usefixtures("quiet_llama_cpp")
@pytest.mark.parametrize("case", _CASES)
def test_logits_equal_those_of_llama_cpp(
    case: str,
    tmp_path: Path,
    make_random_model: Any,
    compute_logits: Any,
    tokens: torch.Tensor,
) -> None:
    kind, settings, header = _CASES[case]
    model = make_random_model(kind, **settings)
    path = tmp_path / "model.gguf"
    _write(path, model, header)
    file = GGUFWeights(path)
    config = config_from_gguf(file.header)
    weights = GGUFTensorNames(file, config)
    found = compute_logits(config, weights, tokens)
    expected = _llama_cpp_logits(path, tokens, config.context)
    # llama.cpp looks up GELU in a table of fp16 values.
    limit = 4e-3 if config.activation is Activation.GELU_TANH else 1e-4
    if config.architecture == "gemma3n":
        limit = 4e-2  # and estimates deviations in sparse MLPs, where transformers computes them
    assert float((found - expected).abs().max() / expected.abs().max()) < limit
    # And the file's config equals that of the transformers settings.
    assert torch.allclose(found, model.logits(tokens), rtol=0, atol=1e-4 * float(found.abs().max()))
