"""OLMoE: Llama with experts, and norms over all heads of queries and of keys."""

from __future__ import annotations

from ...config.config_fields import ConfigFields
from ...config.expert_fields import experts_from_gguf, experts_from_hf, with_experts
from ...config.model_config import ModelConfig
from ..family import HF_EXPERT_NAMES, Family, HFModelType, QueryKeyNorm


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return with_experts(config, experts_from_gguf(fields, config, normalized=False))


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    if "clip_qkv" in fields:
        fields.refuse("bounds queries, keys and values", "Use another edition of the model.")
    width = config.intermediate_size
    experts = experts_from_hf(fields, width=width, used=8, count=64, normalized=False)
    return with_experts(config, experts)


FAMILY = Family(
    name="olmoe",
    query_key_norm=QueryKeyNorm.ALL_HEADS,
    read_gguf=_read_gguf,
    hf_layer_names=HF_EXPERT_NAMES,
    has_experts=True,
    hf_types=(HFModelType(name="olmoe", read=_read_hf, context=4096, epsilon=1e-5),),
)
