"""Gemma 3n, its text half: several residual streams, shared keys, inputs of each layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import NormalDist

from ..config.config_fields import ConfigFields
from ..config.hf_rope import local_rope_from_hf
from ..config.layer_shapes import each_layer, with_mlp_widths, with_shared_keys
from ..config.model_config import Activation, LayerConfig, ModelConfig, RopeConfig, StreamConfig
from ..config.sliding_window import (
    gguf_window,
    hf_window,
    with_gguf_local_layers,
    with_hf_local_layers,
)
from .family import Family, GGUFValue, HFModelType, NormPlacement, QueryKeyNorm, StoredRows
from .gemma4 import LAYER_NAMES

_LAYER_NAMES = {
    **LAYER_NAMES,
    "altup.correction_coefs": "altup_correct_coef",
    "altup.prediction_coefs": "altup_predict_coef",
    "altup.modality_router": "altup_router",
    "altup.router_norm": "altup_router_norm",
    "laurel.linear_left": "laurel_l",
    "laurel.linear_right": "laurel_r",
    "laurel.post_laurel_norm": "laurel_post_norm",
}
_OWN_KEYS = 20
"""Layers with keys of their own in files that do not say how many have none."""
_SCALE = "altup.correct_output_scale"
_SPARSE_LAYERS, _SPARSITY = 10, 0.95
"""The first layers have sparse MLPs: as transformers has it, and llama.cpp for every file."""
_MOST_SPARSE = 0.9999
_LAUREL_RANK = 64
_MOST = 1 << 20


def _with_streams(
    config: ModelConfig, streams: StreamConfig, width: int, sparsity: Iterable[float]
) -> ModelConfig:
    """The configuration with so many elements of each layer's input, and so sparse MLPs."""
    layers = (
        replace(layer, sparsity=NormalDist().inv_cdf(share) if share else None)
        for layer, share in zip(config.layers, sparsity, strict=True)
    )
    return replace(
        config,
        layers=tuple(layers),
        attention_scale=1.0,
        embedding_scale=math.sqrt(config.hidden_size),
        layer_input_width=width,
        streams=streams,
    )


def _sparsity(count: int, sparse: int) -> list[float]:
    return [_SPARSITY if index < sparse else 0.0 for index in range(count)]


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    rope = RopeConfig(
        theta=fields.number("rope.freq_base_swa", 10000.0, low=1.0), size=config.head_size
    )
    local = LayerConfig(window=gguf_window(fields), rope=rope)
    config = with_gguf_local_layers(fields, config, local, period=5)
    count = config.num_layers
    streams = fields.integer("altup.num_inputs", 2, 16, 4)
    config = _with_streams(
        replace(config, activation=Activation.GELU_TANH, final_soft_cap=30.0),
        StreamConfig(
            count=streams,
            active=fields.integer("altup.active_idx", 0, streams - 1, 0),
            laurel_rank=_LAUREL_RANK,
        ),
        fields.integer("embedding_length_per_layer_input", 1, _MOST, 256),
        _sparsity(count, _SPARSE_LAYERS),
    )
    config = with_mlp_widths(config, each_layer(fields, "feed_forward_length", count, _MOST))
    shared = fields.integer("attention.shared_kv_layers", 0, count - 1, max(0, count - _OWN_KEYS))
    return with_shared_keys(fields, config, shared)


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    rope, count = config.layers[0].rope, config.num_layers
    assert rope is not None
    local = LayerConfig(
        window=hf_window(fields, 512),
        rope=local_rope_from_hf(fields, rope, key="rope_local_base_freq", theta=10000.0),
    )
    config = with_hf_local_layers(fields, config, local, lambda index: (index + 1) % 5 != 0)
    key, cap = "activation_sparsity_pattern", "final_logit_softcapping"
    sparsity = _sparsity(count, _SPARSE_LAYERS if count > _SPARSE_LAYERS else 0)
    if key in fields:
        shares = fields.numbers(key, count, low=-1.0, high=_MOST_SPARSE)
        sparsity = [max(0.0, share) for share in shares]
    streams = fields.integer("altup_num_inputs", 2, 16, 4)
    config = _with_streams(
        replace(config, final_soft_cap=None if fields.says_none(cap) else fields.number(cap, 30.0)),
        StreamConfig(
            count=streams,
            active=fields.integer("altup_active_idx", 0, streams - 1, 0),
            laurel_rank=fields.integer("laurel_rank", 1, _MOST, _LAUREL_RANK),
            scales_active=fields.flag("altup_correct_scale", default=True),
        ),
        fields.integer("hidden_size_per_layer_input", 1, _MOST, 256),
        sparsity,
    )
    config = with_mlp_widths(config, each_layer(fields, "intermediate_size", count, _MOST))
    shared = fields.integer("num_kv_shared_layers", 0, count - 1, 15)
    return with_shared_keys(fields, config, shared)


def _hf_parts(part: str, config: ModelConfig) -> Mapping[str, StoredRows] | None:
    del config
    return {"altup_correct_scale.weight": StoredRows()} if part == _SCALE else None


def _gguf_keys(config: ModelConfig) -> Mapping[str, GGUFValue]:
    assert config.streams is not None
    ropes = [layer.rope for layer in config.layers if layer.window is not None and layer.rope]
    return {
        "attention.sliding_window_pattern": [layer.window is not None for layer in config.layers],
        "attention.shared_kv_layers": config.num_layers - len(config.key_layers),
        "feed_forward_length": [config.mlp_width_of(i) for i in range(config.num_layers)],
        "embedding_length_per_layer_input": config.layer_input_width,
        "altup.num_inputs": config.streams.count,
        "altup.active_idx": config.streams.active,
        "rope.freq_base_swa": ropes[0].theta if ropes else 10000.0,
    }


FAMILY = Family(
    name="gemma3n",
    norm_placement=NormPlacement.BOTH,
    query_key_norm=QueryKeyNorm.EACH_HEAD_AND_VALUES,
    read_gguf=_read_gguf,
    hf_layer_names=_LAYER_NAMES,
    hf_parts=_hf_parts,
    has_layer_shapes=True,
    has_streams=True,
    gguf_keys=_gguf_keys,
    hf_types=(
        HFModelType(
            name="gemma3n_text",
            read=_read_hf,
            multimodal_types=("gemma3n",),
            context=32768,
            theta=1000000.0,
            activation="gelu_pytorch_tanh",
            tied=True,
            vocab_size=262400,
            heads=8,
            kv_heads=2,
            head_size=256,
        ),
    ),
)
