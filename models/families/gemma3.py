"""Gemma 3, its text half: Gemma 2 with norms on queries and keys, and no cap on attention."""

from __future__ import annotations

from dataclasses import replace

from ..config.config_fields import ConfigFields
from ..config.hf_rope import local_rope_from_hf
from ..config.model_config import LayerConfig, ModelConfig, RopeConfig
from ..config.sliding_window import (
    gguf_window,
    hf_window,
    with_gguf_local_layers,
    with_hf_local_layers,
)
from .family import (
    HF_LAYER_NAMES_WITH_POST_NORMS,
    Family,
    HFModelType,
    NormPlacement,
    QueryKeyNorm,
)
from .gemma2 import gemma_from_gguf, gemma_from_hf

_LAYERS_OF_27B = 62


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    cap = fields.number("final_logit_softcapping", 0.0, low=-1.0)
    config = replace(gemma_from_gguf(config, _LAYERS_OF_27B), final_soft_cap=cap or None)
    window = gguf_window(fields)
    if window is None:
        return config
    # Local layers keep their own frequencies if those of global layers are scaled.
    rope = RopeConfig(
        theta=fields.number("rope.freq_base_swa", 10000.0, low=1.0),
        size=fields.integer("rope.dimension_count", 2, config.head_size, config.head_size),
    )
    local = LayerConfig(window=window, rope=rope)
    return with_gguf_local_layers(fields, config, local, period=6)


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = gemma_from_hf(fields, config, attention_soft_cap=None, final_soft_cap=None)
    rope = config.layers[0].rope
    assert rope is not None
    local = LayerConfig(
        window=hf_window(fields, 4096),
        rope=local_rope_from_hf(fields, rope, key="rope_local_base_freq", theta=10000.0),
    )
    period = fields.integer("sliding_window_pattern", 1, 1024, 6)
    return with_hf_local_layers(fields, config, local, lambda index: (index + 1) % period != 0)


FAMILY = Family(
    name="gemma3",
    norm_placement=NormPlacement.BOTH,
    query_key_norm=QueryKeyNorm.EACH_HEAD,
    read_gguf=_read_gguf,
    hf_layer_names=HF_LAYER_NAMES_WITH_POST_NORMS,
    hf_norm_offset=1.0,
    hf_types=(
        HFModelType(
            name="gemma3_text",
            read=_read_hf,
            multimodal_types=("gemma3",),
            context=131072,
            theta=1000000.0,
            activation="gelu_pytorch_tanh",
            tied=True,
            vocab_size=262208,
            heads=8,
            kv_heads=4,
            head_size=256,
        ),
    ),
)
