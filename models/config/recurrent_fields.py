"""Which layers are recurrent, as GGUF headers and config.json files say it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .config_fields import ConfigFields
from .model_config import ModelConfig
from .recurrent_config import RecurrentConfig

_HEADS = "attention.head_count_kv"


def with_recurrent_layers(
    config: ModelConfig, recurrent: RecurrentConfig, where: Iterable[bool]
) -> ModelConfig:
    """The configuration with `recurrent` in the place of attention in each layer that is marked."""
    layers = tuple(
        replace(layer, rope=None, recurrent=recurrent) if here else layer
        for layer, here in zip(config.layers, where, strict=True)
    )
    return replace(config, layers=layers)


def layers_without_heads(fields: ConfigFields, count: int) -> list[bool]:
    """Those of the first `count` layers for which a header lists no heads of keys."""
    heads = fields.integers(_HEADS, 0, 1024)
    if not fields.is_list(_HEADS):
        heads *= count
    if len(heads) < count:
        fields.fail("does not say which of its layers have attention")
    return [not heads_here for heads_here in heads[:count]]


def kv_head_counts(config: ModelConfig) -> list[int]:
    """The heads of keys in each layer, as a header lists them."""
    return [config.num_kv_heads if layer.has_keys else 0 for layer in config.layers]
