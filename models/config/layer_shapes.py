"""Layers that differ in their MLPs, and layers that read the keys and values of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
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


def each_layer(fields: ConfigFields, key: str, count: int, high: int) -> Sequence[int]:
    """The value of each of `count` layers, from 1 to `high`."""
    values = fields.integers(key, 1, high)
    if not fields.is_list(key):
        values *= count
    if len(values) != count:
        fields.fail(f"has {len(values)} values under {key!r} for {count} layers")
    return values


def with_mlp_widths(config: ModelConfig, widths: Sequence[int]) -> ModelConfig:
    """The configuration with MLPs of these widths, the first of which is the model's."""
    layers = (
        replace(layer, mlp_width=None if width == widths[0] else width)
        for layer, width in zip(config.layers, widths, strict=True)
    )
    return replace(config, intermediate_size=widths[0], layers=tuple(layers))
