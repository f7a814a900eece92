"""OLMo 2 and 3: norms after attention and MLP, and over all heads of queries and of keys."""

from __future__ import annotations

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

_GLOBAL_LAYER_PERIOD = 4


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    window, rope = gguf_window(fields), config.layers[0].rope
    if window is None or rope is None:
        return config
    # OLMo 3 has the same GGUF name; the RoPE of its local layers is not scaled.
    plain = RopeConfig(theta=fields.number("rope.freq_base_swa", rope.theta), size=rope.size)
    local = LayerConfig(window=window, rope=plain)
    return with_gguf_local_layers(fields, config, local, period=_GLOBAL_LAYER_PERIOD)


def _read_olmo3(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    rope = config.layers[0].rope
    assert rope is not None
    local = LayerConfig(
        window=hf_window(fields, 4096),
        rope=local_rope_from_hf(fields, rope, key="rope_theta", theta=rope.theta),
    )
    return with_hf_local_layers(
        fields, config, local, lambda index: (index + 1) % _GLOBAL_LAYER_PERIOD != 0
    )


FAMILY = Family(
    name="olmo2",
    norm_placement=NormPlacement.AFTER,
    query_key_norm=QueryKeyNorm.ALL_HEADS,
    read_gguf=_read_gguf,
    hf_layer_names=HF_LAYER_NAMES_WITH_POST_NORMS,
    hf_types=(
        HFModelType(name="olmo2", epsilon=1e-5),
        HFModelType(name="olmo3", read=_read_olmo3, epsilon=1e-5, theta=500000.0),
    ),
)
