"""LFM2 with experts (8B-A1B): LFM2 whose layers but the first have experts."""

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
from . import lfm2

_LAYER_NAMES = {**lfm2.LAYER_NAMES, "feed_forward.gate": "ffn_gate_inp"}


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    first = fields.integer("leading_dense_block_count", 0, 1024, 0)
    experts = experts_from_gguf(fields, config, scores=ExpertScores.SIGMOID)
    config = with_experts(config, experts, lambda index: index >= first)
    return lfm2.read_gguf(fields, config)


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    first = fields.integer("num_dense_layers", 0, 1024, 2)
    width = expert_width(fields, "moe_intermediate_size", 1792)
    scores = ExpertScores.SIGMOID
    experts = experts_from_hf(fields, width=width, used=4, count=32, scores=scores)
    config = with_experts(config, experts, lambda index: index >= first)
    return lfm2.read_convolutions(fields, config)


FAMILY = replace(
    lfm2.FAMILY,
    name="lfm2moe",
    read_gguf=_read_gguf,
    hf_layer_names=_LAYER_NAMES,
    has_experts=True,
    hf_types=(replace(lfm2.HF_TYPE, name="lfm2_moe", read=_read_hf),),
)
