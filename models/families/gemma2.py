"""Gemma 2: four norms a layer, soft caps, and a window in every other layer."""

from __future__ import annotations

import math
from dataclasses import replace

from ..config.config_fields import ConfigFields
from ..config.model_config import Activation, ModelConfig
from ..config.sliding_window import (
    gguf_window,
    hf_window,
    with_gguf_local_layers,
    with_hf_local_layers,
)
from .family import HF_LAYER_NAMES_WITH_POST_NORMS, Family, HFModelType, NormPlacement

_LAYERS_OF_27B = 46


def gemma_from_gguf(config: ModelConfig, layers_of_27b: int) -> ModelConfig:
    """The activation and scales of Gemma 2 and 3, which GGUF files do not state.

    The 27B editions scale queries by the width of the residual stream over the heads.
    """
    of_27b = config.num_layers == layers_of_27b
    width = config.hidden_size // config.num_heads if of_27b else config.head_size
    return replace(
        config,
        activation=Activation.GELU_TANH,
        attention_scale=width**-0.5,
        embedding_scale=math.sqrt(config.hidden_size),
    )


def gemma_from_hf(
    fields: ConfigFields,
    config: ModelConfig,
    *,
    attention_soft_cap: float | None,
    final_soft_cap: float | None,
) -> ModelConfig:
    """The scales and soft caps of Gemma 2 and 3; the caps given are the defaults."""
    if fields.flag("use_bidirectional_attention", default=False):
        fields.refuse(
            "is that of a model which reads in both directions",
            "Use a GGUF file of the model: llama.cpp may run it.",
        )
    return replace(
        config,
        attention_scale=fields.number("query_pre_attn_scalar", 256.0) ** -0.5,
        embedding_scale=math.sqrt(config.hidden_size),
        attention_soft_cap=_soft_cap(fields, "attn_logit_softcapping", attention_soft_cap),
        final_soft_cap=_soft_cap(fields, "final_logit_softcapping", final_soft_cap),
    )


def _soft_cap(fields: ConfigFields, key: str, default: float | None) -> float | None:
    if fields.says_none(key) or (default is None and key not in fields):
        return None
    return fields.number(key, default)


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = replace(
        gemma_from_gguf(config, _LAYERS_OF_27B),
        attention_soft_cap=fields.number("attn_logit_softcapping", 50.0),
        final_soft_cap=fields.number("final_logit_softcapping", 30.0),
    )
    local = replace(config.layers[0], window=gguf_window(fields, 4096))
    return with_gguf_local_layers(fields, config, local, period=2)


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = gemma_from_hf(fields, config, attention_soft_cap=50.0, final_soft_cap=30.0)
    local = replace(config.layers[0], window=hf_window(fields, 4096))
    return with_hf_local_layers(fields, config, local, lambda index: index % 2 == 0)


FAMILY = Family(
    name="gemma2",
    norm_placement=NormPlacement.BOTH,
    read_gguf=_read_gguf,
    hf_layer_names=HF_LAYER_NAMES_WITH_POST_NORMS,
    hf_norm_offset=1.0,
    hf_types=(
        HFModelType(
            name="gemma2",
            read=_read_hf,
            context=8192,
            activation="gelu_pytorch_tanh",
            tied=True,
            vocab_size=256000,
            heads=8,
            kv_heads=4,
            head_size=256,
        ),
    ),
)
