"""Sliding windows of attention, as GGUF headers and config.json files describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from .config_fields import MAX_CONTEXT, ConfigFields
from .hf_rope import LOCAL
from .model_config import LayerConfig, ModelConfig


def with_window(config: ModelConfig, window: int | None) -> ModelConfig:
    """The configuration with the same window, in tokens, in every layer; None removes it."""
    return replace(config, layers=tuple(replace(layer, window=window) for layer in config.layers))


def with_local_layers(
    config: ModelConfig, local: LayerConfig, is_local: Iterable[bool]
) -> ModelConfig:
    """The configuration with `local` in place of each layer that `is_local` marks."""
    layers = tuple(
        local if here else layer for layer, here in zip(config.layers, is_local, strict=True)
    )
    return replace(config, layers=layers)


def gguf_window(fields: ConfigFields, default: int = 0) -> int | None:
    """The tokens that a local layer sees; None if there is no window."""
    return fields.integer("attention.sliding_window", 0, MAX_CONTEXT, default) or None


def with_gguf_local_layers(
    fields: ConfigFields, config: ModelConfig, local: LayerConfig, *, period: int
) -> ModelConfig:
    """As `with_local_layers`: those that the header lists, else all but every `period`-th."""
    key, count = "attention.sliding_window_pattern", config.num_layers
    if fields.is_list(key):
        return with_local_layers(config, local, fields.flags(key, count))
    period = fields.integer(key, 0, 1024, period)
    is_local = (period == 0 or (index + 1) % period != 0 for index in range(count))
    return with_local_layers(config, local, is_local)


def hf_window(fields: ConfigFields, default: int | None = None) -> int | None:
    """The tokens that a local layer sees; None if the file says so, or says nothing of it."""
    key = "sliding_window"
    if fields.says_none(key) or (default is None and key not in fields):
        return None
    return fields.integer(key, 1, MAX_CONTEXT, default)


def hf_local_layers(
    fields: ConfigFields, count: int, is_local: Callable[[int], bool]
) -> tuple[bool, ...]:
    """Which layers have the window: as the file lists them, else by `is_local` of their index."""
    if "layer_types" in fields:
        return tuple(kind == LOCAL for kind in fields.texts("layer_types", count))
    return tuple(is_local(index) for index in range(count))


def with_hf_local_layers(
    fields: ConfigFields, config: ModelConfig, local: LayerConfig, is_local: Callable[[int], bool]
) -> ModelConfig:
    """As `with_local_layers`: those that the file lists, else by `is_local` of their index."""
    return with_local_layers(config, local, hf_local_layers(fields, config.num_layers, is_local))
