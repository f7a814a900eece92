"""Ministral 3: Llama with YaRN, and queries that grow with the position."""

from __future__ import annotations

from dataclasses import replace

from ..config.config_fields import MAX_CONTEXT, ConfigFields
from ..config.model_config import LayerConfig, ModelConfig
from ..config.sliding_window import hf_window, with_window
from .family import Family, HFModelType


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    rope, key = config.layers[0].rope, "attention.temperature_scale"
    assert rope is not None
    if key in fields:
        rope = replace(
            rope,
            temperature=fields.number(key),
            original_context=fields.integer("rope.scaling.original_context_length", 2, MAX_CONTEXT),
        )
    return replace(config, layers=(LayerConfig(rope=rope),) * config.num_layers)


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    if "rope_parameters" not in fields:
        fields.fail("does not say its 'rope_parameters'")
    return with_window(config, hf_window(fields))


FAMILY = Family(
    name="mistral3",
    read_gguf=_read_gguf,
    gguf_interleaves_heads=True,
    hf_types=(
        HFModelType(
            name="ministral3",
            read=_read_hf,
            multimodal_types=("mistral3",),
            context=262144,
            epsilon=1e-5,
            theta=1000000.0,
            vocab_size=131072,
            heads=32,
            kv_heads=8,
            head_size=128,
        ),
    ),
)
