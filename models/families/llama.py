"""Llama 1 to 3, and models with its architecture: Mistral, Mixtral, SmolLM2, Yi and many more."""

from __future__ import annotations

from dataclasses import replace

from ..config.config_fields import ConfigFields
from ..config.expert_fields import experts_from_gguf, experts_from_hf, with_experts
from ..config.model_config import ModelConfig
from ..config.sliding_window import gguf_window, hf_window, with_window
from .family import HF_EXPERT_NAMES, Family, HFModelType


def read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The scale of attention, and the window that Mistral 7B and Phi-3 have in every layer."""
    scale = fields.number("attention.scale", config.attention_scale)
    return with_window(replace(config, attention_scale=scale), gguf_window(fields))


def _read_llama_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = read_gguf(fields, config)
    if not fields.integer("expert_count", 0, 1 << 14, 0):
        return config
    return with_experts(config, experts_from_gguf(fields, config))


def _read_mixtral(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    experts = experts_from_hf(fields, width=config.intermediate_size, used=2, count=8)
    return with_experts(with_window(config, hf_window(fields)), experts)


def _read_mistral(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return with_window(config, hf_window(fields, 4096))


FAMILY = Family(
    name="llama",
    read_gguf=_read_llama_gguf,
    hf_layer_names=HF_EXPERT_NAMES,
    has_experts=True,
    gguf_interleaves_heads=True,
    hf_types=(
        HFModelType(name="llama", multimodal_types=("idefics3", "smolvlm")),
        HFModelType(
            name="mistral",
            read=_read_mistral,
            multimodal_types=("mistral3", "llava"),
            context=131072,
            kv_heads=8,
        ),
        HFModelType(
            name="mixtral",
            read=_read_mixtral,
            context=131072,
            epsilon=1e-5,
            theta=1000000.0,
            kv_heads=8,
        ),
    ),
)
