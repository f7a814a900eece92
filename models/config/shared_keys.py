"""Layers that read the keys and values of earlier ones."""

from __future__ import annotations

from dataclasses import replace

from .config_fields import ConfigFields
from .model_config import ModelConfig


def with_shared_keys(fields: ConfigFields, config: ModelConfig, count: int) -> ModelConfig:
    """The configuration whose last `count` layers have no keys and values of their own.

    Each reads those of the last layer before them that has the same window.
    """
    own = config.layers[: config.num_layers - count]
    sources = {layer.window: index for index, layer in enumerate(own)}
    layers = list(own)
    for layer in config.layers[len(own) :]:
        if layer.window not in sources:
            fields.fail(f"lets {count} layers share keys of a kind that no other layer has")
        layers.append(replace(layer, kv_layer=sources[layer.window]))
    return replace(config, layers=tuple(layers))
