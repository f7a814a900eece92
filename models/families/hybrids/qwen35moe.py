"""Qwen 3.5 and 3.6 with experts (35B-A3B): Qwen 3.5 with experts and a shared one in each layer."""

from __future__ import annotations

from dataclasses import replace

from ...config.config_fields import ConfigFields
from ...config.expert_fields import (
    expert_width,
    experts_from_gguf,
    experts_from_hf,
    with_experts,
    with_shared_expert,
)
from ...config.model_config import ExpertConfig, ModelConfig
from ..family import HF_EXPERT_NAMES
from . import qwen35


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return qwen35.read_gguf(fields, with_gguf_experts(fields, config))


def with_gguf_experts(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The configuration with experts, and a shared one with a gate, in each layer."""
    experts, key = experts_from_gguf(fields, config), "expert_shared_feed_forward_length"
    return with_experts(config, with_shared_expert(fields, experts, key, experts.width))


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    experts = replace(hf_experts(fields, used=8, count=256), normalized=True)
    return qwen35.read_hf(fields, with_experts(config, experts))


def hf_experts(fields: ConfigFields, *, used: int, count: int) -> ExpertConfig:
    """The experts of a layer, and a shared one with a gate; `used` and `count` are defaults."""
    width = expert_width(fields, "moe_intermediate_size", 512)
    experts = experts_from_hf(fields, width=width, used=used, count=count)
    return with_shared_expert(fields, experts, "shared_expert_intermediate_size", 512)


FAMILY = replace(
    qwen35.FAMILY,
    name="qwen35moe",
    read_gguf=_read_gguf,
    hf_layer_names=HF_EXPERT_NAMES,
    has_experts=True,
    hf_types=(
        replace(
            qwen35.HF_TYPE,
            name="qwen3_5_moe_text",
            read=_read_hf,
            multimodal_types=("qwen3_5_moe",),
            kv_heads=2,
        ),
    ),
)
