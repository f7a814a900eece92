"""Granite 3 with experts: Granite whose layers have experts in place of one MLP."""

from __future__ import annotations

from ...config.config_fields import ConfigFields
from ...config.expert_fields import experts_from_gguf, experts_from_hf, with_experts
from ...config.model_config import ModelConfig
from ..family import HF_EXPERT_NAMES, Family, HFModelType
from ..granite import gguf_keys, read_scales_from_gguf, read_scales_from_hf


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = read_scales_from_gguf(fields, config)
    if fields.integer("expert_shared_feed_forward_length", 0, 1 << 20, 0):
        fields.refuse("has an MLP beside its experts", "Let llama.cpp run it.")
    return with_experts(config, experts_from_gguf(fields, config))


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    experts = experts_from_hf(fields, width=config.intermediate_size, used=2, count=8)
    return with_experts(read_scales_from_hf(fields, config), experts)


FAMILY = Family(
    name="granitemoe",
    read_gguf=_read_gguf,
    hf_layer_names=HF_EXPERT_NAMES,
    has_experts=True,
    gguf_keys=gguf_keys,
    gguf_interleaves_heads=True,
    hf_types=(HFModelType(name="granitemoe", read=_read_hf),),
)
