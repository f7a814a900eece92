"""Qwen 2 and 2.5: Llama with biases on queries, keys and values."""

from __future__ import annotations

from dataclasses import replace

from ..config.config_fields import ConfigFields
from ..config.model_config import ModelConfig
from ..config.rope_sections import axis_sections
from ..config.sliding_window import hf_window, with_hf_local_layers
from .family import Family, HFModelType


def read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The window of the layers from `max_window_layers` on, if the file uses it."""
    if not fields.flag("use_sliding_window", default=False):
        return config
    first = fields.integer("max_window_layers", 0, 1024, 28)
    local = replace(config.layers[0], window=hf_window(fields, 4096))
    return with_hf_local_layers(fields, config, local, lambda index: index >= first)


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The sections of Qwen2.5-VL's RoPE, if the file has some."""
    key, rope = "rope.dimension_sections", config.layers[0].rope
    assert rope is not None
    if key not in fields:
        return config
    turned = replace(rope, sections=axis_sections(fields, key, rope.size))
    layer = replace(config.layers[0], rope=turned)
    return replace(config, layers=(layer,) * config.num_layers)


FAMILY = Family(
    name="qwen2",
    other_names=("qwen2vl",),
    read_gguf=_read_gguf,
    hf_types=(
        HFModelType(name="qwen2", read=read_hf, context=32768),
        HFModelType(
            name="qwen2_5_vl_text",
            read=read_hf,
            multimodal_types=("qwen2_5_vl",),
            context=32768,
            epsilon=1e-5,
            theta=1000000.0,
        ),
    ),
)
