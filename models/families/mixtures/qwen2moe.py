"""Qwen 2 with experts: Qwen 2 whose layers add experts and a gated MLP that all tokens share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...config.config_fields import ConfigFields
from ...config.expert_fields import (
    expert_width,
    experts_from_gguf,
    experts_from_hf,
    with_experts,
    with_shared_expert,
)
from ...config.model_config import ModelConfig
from ...config.sliding_window import hf_window, with_hf_local_layers
from ..family import HF_EXPERT_NAMES, Family, HFModelType


def sparse_layers(fields: ConfigFields) -> Callable[[int], bool]:
    """Whether the layer with an index has experts, by the config.json of a Qwen 2 or 3."""
    step, key = fields.integer("decoder_sparse_step", 1, 1024, 1), "mlp_only_layers"
    dense = frozenset(fields.integers(key, 0, 1024)) if fields.is_list(key) else frozenset[int]()
    return lambda index: index not in dense and (index + 1) % step == 0


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    experts = experts_from_gguf(fields, config, normalized=False)
    key, width = "expert_shared_feed_forward_length", config.intermediate_size
    return with_experts(config, with_shared_expert(fields, experts, key, width))


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    if fields.flag("use_sliding_window", default=False):
        end = fields.integer("max_window_layers", 0, 1024, 28)
        local = replace(config.layers[0], window=hf_window(fields, 4096))
        config = with_hf_local_layers(
            fields, config, local, lambda index: index % 2 == 0 and index < end
        )
    width = expert_width(fields, "moe_intermediate_size", 1408)
    experts = experts_from_hf(fields, width=width, used=4, count=60, normalized=False)
    experts = with_shared_expert(fields, experts, "shared_expert_intermediate_size", 5632)
    return with_experts(config, experts, sparse_layers(fields))


FAMILY = Family(
    name="qwen2moe",
    read_gguf=_read_gguf,
    hf_layer_names=HF_EXPERT_NAMES,
    has_experts=True,
    hf_types=(HFModelType(name="qwen2_moe", read=_read_hf, context=32768, kv_heads=16),),
)
