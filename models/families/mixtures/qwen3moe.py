"""Qwen 3 with experts."""

from __future__ import annotations

from ...config.config_fields import ConfigFields
from ...config.expert_fields import (
    expert_width,
    experts_from_gguf,
    experts_from_hf,
    with_experts,
)
from ...config.model_config import ModelConfig
from ...config.sliding_window import hf_window, with_window
from ..family import HF_EXPERT_NAMES, Family, HFModelType, QueryKeyNorm
from .qwen2moe import sparse_layers


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return with_experts(config, experts_from_gguf(fields, config))


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    if fields.flag("use_sliding_window", default=False):
        config = with_window(config, hf_window(fields, 4096))
    width = expert_width(fields, "moe_intermediate_size", 768)
    experts = experts_from_hf(fields, width=width, used=8, count=128, normalized=False)
    return with_experts(config, experts, sparse_layers(fields))


FAMILY = Family(
    name="qwen3moe",
    query_key_norm=QueryKeyNorm.EACH_HEAD,
    read_gguf=_read_gguf,
    hf_layer_names=HF_EXPERT_NAMES,
    has_experts=True,
    hf_types=(HFModelType(name="qwen3_moe", read=_read_hf, context=32768, kv_heads=4),),
)
