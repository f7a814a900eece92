"""SmolLM3: Llama without RoPE in every fourth layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..config.config_fields import ConfigFields
from ..config.model_config import ModelConfig
from ..config.sliding_window import hf_local_layers, hf_window
from .family import Family, HFModelType

_NO_ROPE_PERIOD = 4


def _read_gguf(_fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return _with_rope_in(config, _rotating_layers(config.num_layers, _NO_ROPE_PERIOD))


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    count = config.num_layers
    rotates = _rotating_layers(
        count, fields.integer("no_rope_layer_interval", 1, 1024, _NO_ROPE_PERIOD)
    )
    if "no_rope_layers" in fields:
        rotates = fields.flags("no_rope_layers", count)
    config = _with_rope_in(config, rotates)
    window = hf_window(fields) if fields.flag("use_sliding_window", default=False) else None
    is_local = hf_local_layers(fields, count, lambda index: not rotates[index])
    layers = tuple(
        replace(layer, window=window) if local else layer
        for layer, local in zip(config.layers, is_local, strict=True)
    )
    return replace(config, layers=layers)


def _rotating_layers(count: int, period: int) -> tuple[bool, ...]:
    return tuple((index + 1) % period != 0 for index in range(count))


def _with_rope_in(config: ModelConfig, rotates: Sequence[bool]) -> ModelConfig:
    layers = tuple(
        layer if has_rope else replace(layer, rope=None)
        for layer, has_rope in zip(config.layers, rotates, strict=True)
    )
    return replace(config, layers=layers)


FAMILY = Family(
    name="smollm3",
    read_gguf=_read_gguf,
    gguf_interleaves_heads=True,
    hf_types=(
        HFModelType(name="smollm3", read=_read_hf, context=32768, theta=2000000.0, tied=True),
    ),
)
