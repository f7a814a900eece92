"""Llama 1 to 3, and models with its architecture: Mistral, SmolLM2, Yi and many more."""

from __future__ import annotations

from dataclasses import replace

from ..config.config_fields import ConfigFields
from ..config.model_config import ModelConfig
from ..config.sliding_window import gguf_window, hf_window, with_window
from .family import Family, HFModelType


def read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The scale of attention, and the window that Mistral 7B and Phi-3 have in every layer."""
    scale = fields.number("attention.scale", config.attention_scale)
    return with_window(replace(config, attention_scale=scale), gguf_window(fields))


def _read_mistral(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return with_window(config, hf_window(fields, 4096))


FAMILY = Family(
    name="llama",
    read_gguf=read_gguf,
    gguf_interleaves_heads=True,
    hf_types=(
        HFModelType(name="llama"),
        HFModelType(name="mistral", read=_read_mistral, context=131072, kv_heads=8),
    ),
)
