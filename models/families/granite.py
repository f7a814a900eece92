"""Granite 3 and 4 without experts: Llama with scales on embedding, residuals and logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..config.config_fields import ConfigFields
from ..config.model_config import LayerConfig, ModelConfig
from .family import Family, HFModelType


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
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


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return replace(
        config,
        attention_scale=fields.number("attention_multiplier", 1.0),
        embedding_scale=fields.number("embedding_multiplier", 1.0),
        residual_scale=fields.number("residual_multiplier", 1.0),
        logit_scale=1 / fields.number("logits_scaling", 1.0),
    )


def _gguf_scales(config: ModelConfig) -> Mapping[str, float]:
    return {
        "attention.scale": config.attention_scale,
        "embedding_scale": config.embedding_scale,
        "residual_scale": config.residual_scale,
        "logit_scale": 1 / config.logit_scale,
    }


FAMILY = Family(
    name="granite",
    read_gguf=_read_gguf,
    gguf_scales=_gguf_scales,
    gguf_interleaves_heads=True,
    hf_types=(HFModelType(name="granite", read=_read_hf),),
)
