"""DeepSeek V2 and V3, GLM-4.7-Flash, Youtu-LLM: latent attention, with experts or without."""

from __future__ import annotations

from dataclasses import replace

from ...config.config_fields import ConfigFields
from ...config.expert_fields import (
    expert_width,
    experts_from_gguf,
    experts_from_hf,
    with_experts,
)
from ...config.latent_fields import latent_from_gguf, latent_from_hf
from ...config.model_config import ExpertConfig, ExpertScores, ModelConfig
from ..family import HF_EXPERT_NAMES, HF_LATENT_NAMES, Family, GGUFValue, HFModelType

_SOFTMAX, _SIGMOID = 1, 2
"""ggml's numbers of the scores of experts."""
_THETA = 10000.0
_MOST_LAYERS = 1024


def read_latent_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The configuration with the latents and the experts of a header."""
    config = latent_from_gguf(fields, config)
    if not fields.integer("expert_count", 0, 1 << 14, 0):
        return config
    experts = experts_from_gguf(fields, config, normalized=False)
    shared = fields.integer("expert_shared_count", 0, 1024, 0)
    dense = fields.integer("leading_dense_block_count", 0, _MOST_LAYERS, 0)
    experts = replace(experts, shared_width=shared * experts.width)
    return with_experts(config, experts, lambda index: index >= dense)


def latent_keys(config: ModelConfig) -> dict[str, GGUFValue]:
    """The keys of latents and of their experts."""
    assert config.latent is not None
    latent = config.latent
    experts = next((layer.experts for layer in config.layers if layer.experts is not None), None)
    keys: dict[str, GGUFValue] = {
        "attention.kv_lora_rank": latent.rank,
        "attention.value_length": latent.rank,
        "attention.key_length_mla": latent.key_size + latent.rope_size,
        "attention.value_length_mla": latent.value_size,
        "expert_shared_count": 0,
    }
    if latent.query_rank:
        keys["attention.q_lora_rank"] = latent.query_rank
    if experts is None:  # llama.cpp asks for their width nevertheless
        width = config.intermediate_size
        return keys | {
            "expert_feed_forward_length": width,
            "leading_dense_block_count": config.num_layers,
        }
    is_sigmoid = experts.scores is ExpertScores.SIGMOID
    return keys | {
        "expert_shared_count": experts.shared_width // experts.width,
        "expert_gating_func": _SIGMOID if is_sigmoid else _SOFTMAX,
        "expert_weights_norm": experts.normalized,
        "expert_weights_scale": experts.scale,
    }


def with_hf_experts(
    fields: ConfigFields, config: ModelConfig, experts: ExpertConfig, dense: int
) -> ModelConfig:
    """The configuration with experts, and a shared one, in the layers behind the `dense` ones."""
    shared = fields.integer("n_shared_experts", 0, 1024, 1)
    experts = replace(experts, shared_width=shared * experts.width)
    dense = fields.integer("first_k_dense_replace", 0, _MOST_LAYERS, dense)
    return with_experts(config, experts, lambda index: index >= dense)


def _read_v2(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = latent_from_hf(fields, config, theta=_THETA)
    width = expert_width(fields, "moe_intermediate_size", 1407)
    experts = experts_from_hf(fields, width=width, count=64, normalized=False)
    method = fields.text("topk_method", "greedy")
    if method != "greedy" and experts.groups_used < experts.groups:
        fields.refuse(
            f"picks its experts in the way {method!r}, which ingle does not know",
            "Use a GGUF file of the model: llama.cpp may run it.",
        )
    # Sums of scores are never normalised, whatever the file says.
    experts = replace(experts, groups=1, groups_used=1, normalized=False)
    return with_hf_experts(fields, config, experts, 0)


def _read_v3(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = latent_from_hf(fields, config, theta=_THETA)
    width = expert_width(fields, "moe_intermediate_size", 2048)
    scores = ExpertScores.SIGMOID
    experts = experts_from_hf(fields, width=width, used=8, count=256, scores=scores)
    return with_hf_experts(fields, config, experts, 3)


def _read_glm(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = latent_from_hf(fields, config, theta=_THETA)
    width = expert_width(fields, "moe_intermediate_size", 1536)
    scores = ExpertScores.SIGMOID
    experts = experts_from_hf(fields, width=width, used=4, count=64, scores=scores)
    kinds, dense = "mlp_layer_types", 1
    config = with_hf_experts(fields, config, experts, dense)
    if kinds not in fields:
        return config
    shared = config.layers[-1].experts
    listed = fields.texts(kinds, config.num_layers)
    plain = replace(config, layers=tuple(replace(each, experts=None) for each in config.layers))
    assert shared is not None
    return with_experts(plain, shared, lambda index: listed[index] == "sparse")


def _read_dense(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return latent_from_hf(fields, config, theta=_THETA)


FAMILY = Family(
    name="deepseek2",
    read_gguf=read_latent_gguf,
    hf_layer_names={**HF_EXPERT_NAMES, **HF_LATENT_NAMES},
    hf_interleaves_heads=True,
    gguf_interleaves_heads=True,
    gguf_keys=latent_keys,
    has_experts=True,
    has_latents=True,
    has_draft_layers=True,
    hf_types=(
        HFModelType(name="deepseek_v2", read=_read_v2, vocab_size=102400),
        HFModelType(name="deepseek_v3", read=_read_v3, context=4096, vocab_size=129280),
        HFModelType(
            name="glm4_moe_lite", read=_read_glm, context=202752, epsilon=1e-5, vocab_size=154880
        ),
        HFModelType(name="youtu", read=_read_dense, context=131072, vocab_size=128256, tied=True),
    ),
)
