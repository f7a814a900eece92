"""gpt-oss: experts with biases, a window in every other layer, and attention with sinks."""

from __future__ import annotations

from dataclasses import replace

from ...config.config_fields import ConfigFields
from ...config.expert_fields import experts_from_gguf, experts_from_hf, with_experts
from ...config.model_config import Activation, ModelConfig
from ...config.sliding_window import (
    gguf_window,
    hf_window,
    with_gguf_local_layers,
    with_hf_local_layers,
)
from ..family import HF_EXPERT_NAMES, Family, HFModelType

_SHAPE_OF_GATE = {"swiglu_alpha": 1.702, "swiglu_limit": 7.0}


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    local = replace(config.layers[0], window=gguf_window(fields))
    config = with_gguf_local_layers(fields, config, local, period=2)
    return _with_own_parts(with_experts(config, experts_from_gguf(fields, config)))


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    if "rope_parameters" not in fields and "rope_scaling" not in fields:
        fields.fail("does not say its 'rope_parameters'")
    for key, value in _SHAPE_OF_GATE.items():
        if fields.number(key, value) != value:
            fields.refuse(f"has a {key!r} other than {value}", "Use a GGUF file of the model.")
    local = replace(config.layers[0], window=hf_window(fields, 128))
    config = with_hf_local_layers(fields, config, local, lambda index: index % 2 == 0)
    experts = experts_from_hf(fields, width=config.intermediate_size, used=4, count=128)
    return _with_own_parts(with_experts(config, experts))


def _with_own_parts(config: ModelConfig) -> ModelConfig:
    return replace(config, activation=Activation.CLAMPED_SILU, attention_sinks=True)


FAMILY = Family(
    name="gpt-oss",
    read_gguf=_read_gguf,
    hf_layer_names=HF_EXPERT_NAMES,
    hf_alternates_gates=True,
    has_experts=True,
    gguf_layer_names={"post_attention_norm": "ffn_norm"},
    hf_types=(
        HFModelType(
            name="gpt_oss",
            read=_read_hf,
            context=131072,
            epsilon=1e-5,
            theta=150000.0,
            vocab_size=201088,
            heads=64,
            kv_heads=8,
            head_size=64,
        ),
    ),
)
