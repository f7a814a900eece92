"""Granite 3 and 4 without experts: Llama with scales on embedding, residuals and logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..config.config_fields import ConfigFields
from ..config.model_config import LayerConfig, ModelConfig
from .family import Family, HFModelType


def read_scales_from_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The scales of Granite, and layers without RoPE, of a header."""
    config = replace(
        config,
        attention_scale=fields.number("attention.scale", config.attention_scale),
        embedding_scale=fields.number("embedding_scale", 1.0),
        residual_scale=fields.number("residual_scale", 1.0),
        logit_scale=1 / fields.number("logit_scale"),
    )
    if fields.flag("rope.scaling.finetuned", default=True):
        return config
    return replace(config, layers=(LayerConfig(),) * config.num_layers)


def read_scales_from_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The scales of Granite of a config.json."""
    return replace(
        config,
        attention_scale=fields.number("attention_multiplier", 1.0),
        embedding_scale=fields.number("embedding_multiplier", 1.0),
        residual_scale=fields.number("residual_multiplier", 1.0),
        logit_scale=1 / fields.number("logits_scaling", 1.0),
    )


def gguf_keys(config: ModelConfig) -> Mapping[str, float]:
    """The keys of Granite's scales in a header."""
    return {
        "attention.scale": config.attention_scale,
        "embedding_scale": config.embedding_scale,
        "residual_scale": config.residual_scale,
        "logit_scale": 1 / config.logit_scale,
    }


FAMILY = Family(
    name="granite",
    read_gguf=read_scales_from_gguf,
    gguf_keys=gguf_keys,
    gguf_interleaves_heads=True,
    hf_types=(HFModelType(name="granite", read=read_scales_from_hf),),
)
