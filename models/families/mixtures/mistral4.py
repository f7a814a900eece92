"""Mistral 4: latent attention, queries that grow with the position, and softmax scores."""

from __future__ import annotations

from ...config.config_fields import ConfigFields
from ...config.expert_fields import expert_width, experts_from_hf
from ...config.latent_fields import latent_from_hf
from ...config.model_config import ModelConfig
from ..family import HF_EXPERT_NAMES, HF_LATENT_NAMES, Family, HFModelType
from .deepseek2 import latent_keys, read_latent_gguf, with_hf_experts


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    if "rope_parameters" not in fields:
        fields.fail("does not say its 'rope_parameters'")
    config = latent_from_hf(fields, config, theta=10000.0)
    width = expert_width(fields, "moe_intermediate_size", 2048)
    experts = experts_from_hf(fields, width=width, used=4, count=128)
    return with_hf_experts(fields, config, experts, 0)


FAMILY = Family(
    name="mistral4",
    read_gguf=read_latent_gguf,
    hf_layer_names={**HF_EXPERT_NAMES, **HF_LATENT_NAMES},
    hf_interleaves_heads=True,
    gguf_interleaves_heads=True,
    gguf_keys=latent_keys,
    has_experts=True,
    has_latents=True,
    hf_types=(
        HFModelType(
            name="mistral4",
            read=_read_hf,
            multimodal_types=("mistral3",),
            context=1048576,
            vocab_size=131072,
            rotated_share=0.5,
        ),
    ),
)
