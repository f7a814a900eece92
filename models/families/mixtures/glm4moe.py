"""GLM-4.5 to 4.7 with experts: sigmoid scores, and a gated MLP that all tokens share."""

from __future__ import annotations

from dataclasses import replace

from ...config.config_fields import ConfigFields
from ...config.expert_fields import (
    expert_width,
    experts_from_gguf,
    experts_from_hf,
    with_experts,
)
from ...config.model_config import ExpertScores, ModelConfig
from ..family import HF_EXPERT_NAMES, Family, HFModelType, QueryKeyNorm


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    experts = experts_from_gguf(fields, config, scores=ExpertScores.SIGMOID, normalized=False)
    shared = fields.integer("expert_shared_count", 0, 1024, 0)
    experts = replace(experts, shared_width=shared * experts.width)
    dense = fields.integer("leading_dense_block_count", 0, 1024, 0)
    return with_experts(config, experts, lambda index: index >= dense)


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    width = expert_width(fields, "moe_intermediate_size", 1408)
    scores = ExpertScores.SIGMOID
    experts = experts_from_hf(fields, width=width, used=8, count=128, scores=scores)
    shared = fields.integer("n_shared_experts", 0, 1024, 1)
    experts = replace(experts, shared_width=shared * width)
    dense = fields.integer("first_k_dense_replace", 0, 1024, 1)
    return with_experts(config, experts, lambda index: index >= dense)


FAMILY = Family(
    name="glm4moe",
    query_key_norm=QueryKeyNorm.EACH_HEAD_IF_ANY,
    read_gguf=_read_gguf,
    hf_layer_names=HF_EXPERT_NAMES,
    has_experts=True,
    has_draft_layers=True,
    has_mtp_head=True,
    gguf_layer_names={"post_attention_norm": "ffn_norm"},
    hf_types=(
        HFModelType(
            name="glm4_moe",
            read=_read_hf,
            context=131072,
            epsilon=1e-5,
            vocab_size=151552,
            heads=96,
            kv_heads=8,
            rotated_share=0.5,
        ),
    ),
)
