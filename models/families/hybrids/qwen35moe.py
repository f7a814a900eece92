"""Qwen 3.5 and 3.6 with experts (35B-A3B): Qwen 3.5 with experts and a shared one in each layer."""

from __future__ import annotations

from dataclasses import replace

from ...config.config_fields import ConfigFields
from ...config.expert_fields import (
    expert_width,
    experts_from_gguf,
    experts_from_hf,
    with_experts,
)
from ...config.model_config import ModelConfig
from ..family import HF_EXPERT_NAMES, Family, HFModelType, QueryKeyNorm
from . import qwen35


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = with_shared_gguf_experts(fields, config)
    return qwen35.read_gguf(fields, config)


def with_shared_gguf_experts(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The configuration with experts, and a shared one with a gate, in each layer."""
    experts = experts_from_gguf(fields, config)
    shared = expert_width(fields, "expert_shared_feed_forward_length", experts.width)
    return with_experts(config, replace(experts, shared_width=shared, shared_gate=True))


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    width = expert_width(fields, "moe_intermediate_size", 512)
    experts = experts_from_hf(fields, width=width, used=8, count=256)
    shared = expert_width(fields, "shared_expert_intermediate_size", 512)
    experts = replace(experts, shared_width=shared, shared_gate=True, normalized=True)
    return qwen35.read_hf(fields, with_experts(config, experts))


FAMILY = Family(
    name="qwen35moe",
    query_key_norm=QueryKeyNorm.EACH_HEAD,
    read_gguf=_read_gguf,
    hf_layer_names=HF_EXPERT_NAMES,
    hf_norm_offset=1.0,
    hf_parts=qwen35.hf_parts,
    has_experts=True,
    has_states=True,
    has_draft_layers=True,
    has_mtp_head=True,
    gguf_layer_names={"post_attention_norm": "ffn_norm"},
    gguf_keys=qwen35.gguf_keys,
    hf_types=(
        HFModelType(
            name="qwen3_5_moe_text",
            read=_read_hf,
            multimodal_types=("qwen3_5_moe",),
            context=32768,
            vocab_size=248320,
            heads=16,
            kv_heads=2,
            head_size=256,
            rotated_share=0.25,
        ),
    ),
)
