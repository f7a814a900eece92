"""Qwen 2 and 2.5: Llama with biases on queries, keys and values."""

from __future__ import annotations

from dataclasses import replace

from ..config.config_fields import ConfigFields
from ..config.model_config import ModelConfig
from ..config.sliding_window import hf_window, with_hf_local_layers
from .family import Family, HFModelType


def read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The window of the layers from `max_window_layers` on, if the file uses it."""
    if not fields.flag("use_sliding_window", default=False):
        return config
    first = fields.integer("max_window_layers", 0, 1024, 28)
    local = replace(config.layers[0], window=hf_window(fields, 4096))
    return with_hf_local_layers(fields, config, local, lambda index: index >= first)


FAMILY = Family(name="qwen2", hf_types=(HFModelType(name="qwen2", read=read_hf, context=32768),))
