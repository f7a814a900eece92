"""Gemma 4, its text half: wide heads without a window, shared keys, inputs of each layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..config.config_fields import ConfigFields
from ..config.expert_fields import (
    expert_width,
    experts_from_gguf,
    experts_from_hf,
    with_experts,
)
from ..config.hf_rope import local_rope_from_hf, rope_from_hf
from ..config.layer_shapes import each_layer, with_mlp_widths, with_shared_keys
from ..config.model_config import (
    Activation,
    ExpertConfig,
    KVHeads,
    LayerConfig,
    ModelConfig,
    RopeConfig,
)
from ..config.rope_scaling import proportional_factors
from ..config.sliding_window import (
    gguf_window,
    hf_local_layers,
    hf_window,
    with_local_layers,
)
from .family import (
    HF_LAYER_NAMES_WITH_POST_NORMS,
    Family,
    GGUFValue,
    HFModelType,
    NormPlacement,
    QueryKeyNorm,
    StoredRows,
)

LAYER_NAMES = {
    **HF_LAYER_NAMES_WITH_POST_NORMS,
    "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
    "router.proj": "ffn_gate_inp",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
    "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "post_feedforward_layernorm_2": "post_ffw_norm_2",
}
"""GGUF's name of each part of a layer, by its name in transformers."""
_OTHER_PARTS = {
    "layer_scalar": "layer_output_scale.weight",
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
}
_MOST = 1 << 20
_OTHER_WAY = "Use a GGUF file of the model: llama.cpp may run it."


def _with_kinds(
    fields: ConfigFields,
    config: ModelConfig,
    local: LayerConfig,
    is_local: Sequence[bool],
    experts: ExpertConfig | None,
) -> ModelConfig:
    """The configuration, that of layers without a window, with `local` ones and experts."""
    config = with_local_layers(config, local, is_local)
    for heads in config.key_heads:
        if config.num_heads % heads.count:
            fields.fail(f"shares {heads.count} key heads among {config.num_heads} heads")
        if heads.size % 2:
            fields.fail(f"rotates heads of {heads.size} elements, which are not pairs")
    if experts is None:
        return config
    layers = (replace(layer, parallel_experts=True) for layer in config.layers)
    return with_experts(replace(config, layers=tuple(layers)), experts)


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    count = config.num_layers
    is_local = fields.flags("attention.sliding_window_pattern", count)
    heads: Sequence[int] = (config.num_kv_heads,) * count
    if (key := "attention.head_count_kv") in fields:
        heads = each_layer(fields, key, count, config.num_heads)
    size = fields.integer("attention.key_length_swa", 2, 1 << 13, config.head_size)
    rope = RopeConfig(
        theta=fields.number("rope.freq_base_swa", 10000.0, low=1.0),
        size=fields.integer("rope.dimension_count_swa", 2, size, size) // 2 * 2,
    )
    local = LayerConfig(
        window=gguf_window(fields),
        rope=rope,
        kv_heads=KVHeads(count=heads[is_local.index(True)], size=size) if any(is_local) else None,
    )
    cap = fields.number("final_logit_softcapping", 0.0, low=-1.0)
    width = fields.integer("embedding_length_per_layer_input", 0, _MOST, 0)
    experts = None
    if fields.integer("expert_count", 0, 1 << 14, 0):
        experts = experts_from_gguf(fields, config)
    config = replace(
        config,
        attention_scale=1.0,
        embedding_scale=math.sqrt(config.hidden_size),
        layer_input_width=width,
        num_kv_heads=heads[-1],
        activation=Activation.GELU_TANH,
        final_soft_cap=cap or None,
    )
    config = _with_kinds(fields, config, local, is_local, experts)
    shared = fields.integer("attention.shared_kv_layers", 0, count - 1, 0)
    widths = each_layer(fields, "feed_forward_length", count, _MOST)
    return with_shared_keys(fields, with_mlp_widths(config, widths), shared)


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return _read(fields, config, window=512, input_width=256)


def _read_unified(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return _read(fields, config, window=1024, input_width=0)


def _read(
    fields: ConfigFields, config: ModelConfig, *, window: int, input_width: int
) -> ModelConfig:
    key = "use_bidirectional_attention"
    if fields.says_something(key) and fields.text(key) != "vision":
        fields.refuse("is that of a model which reads in both directions", _OTHER_WAY)
    count = config.num_layers
    listed = hf_local_layers(fields, count, lambda index: (index + 1) % 6 != 0)
    is_local = (*listed[:-1], False)
    heads = _global_heads(fields, config, is_local.index(False))
    rope = config.layers[0].rope
    assert rope is not None
    small = RopeConfig(theta=rope.theta, size=config.head_size)
    local = LayerConfig(
        window=hf_window(fields, window),
        rope=local_rope_from_hf(fields, small, key="rope_local_base_freq", theta=10000.0),
        kv_heads=KVHeads(count=config.num_kv_heads, size=config.head_size),
    )
    if fields.says_none("hidden_size_per_layer_input"):
        input_width = 0
    width = fields.integer("hidden_size_per_layer_input", 0, _MOST, input_width)
    cap = "final_logit_softcapping"
    config = replace(
        config,
        attention_scale=1.0,
        embedding_scale=math.sqrt(config.hidden_size),
        layer_input_width=width,
        layers=(LayerConfig(rope=_global_rope(fields, config, heads.size)),) * count,
        head_size=heads.size,
        num_kv_heads=heads.count,
        final_soft_cap=fields.number(cap) if cap in fields else None,
    )
    config = _with_kinds(fields, config, local, is_local, _experts(fields))
    shared = fields.integer("num_kv_shared_layers", 0, count - 1, 0)
    if fields.flag("use_double_wide_mlp", default=False):
        widths = [config.intermediate_size] * (count - shared)
        config = with_mlp_widths(config, [*widths, *[2 * config.intermediate_size] * shared])
    return with_shared_keys(fields, config, shared)


def _global_heads(fields: ConfigFields, config: ModelConfig, layer: int) -> KVHeads:
    """The key heads of layers without a window, of which `layer` is one."""
    size, count = "global_head_dim", "num_global_key_value_heads"
    each = fields.group("per_layer_config")
    if each is not None:
        fields = each.group(str(layer)) or fields.nothing()
        size, count = "head_dim", "num_key_value_heads"
    elif not fields.flag("attention_k_eq_v", default=False):
        count = "num_key_value_heads"
    return KVHeads(
        count=fields.integer(count, 1, config.num_heads, config.num_kv_heads),
        size=fields.integer(size, 2, 1 << 13, 512),
    )


def _global_rope(fields: ConfigFields, config: ModelConfig, size: int) -> RopeConfig:
    if "rope_parameters" in fields:
        return rope_from_hf(fields, size, context=config.context, theta=1e6)
    return RopeConfig(theta=1e6, size=size, factors=proportional_factors(size, size // 4))


def _experts(fields: ConfigFields) -> ExpertConfig | None:
    if not fields.flag("enable_moe_block", default=False):
        return None
    width = expert_width(fields, "moe_intermediate_size")
    return experts_from_hf(fields, width=width, used=fields.integer("top_k_experts", 1, 1 << 14))


def _hf_parts(part: str, config: ModelConfig) -> Mapping[str, StoredRows] | None:
    del config
    return {_OTHER_PARTS[part]: StoredRows()} if part in _OTHER_PARTS else None


def _gguf_keys(config: ModelConfig) -> Mapping[str, GGUFValue]:
    layers, indices = config.layers, range(config.num_layers)
    local = next((i for i in indices if layers[i].kv_heads is not None), 0)
    size, rope = config.kv_heads_of(local).size, layers[local].rope
    assert rope is not None
    return {
        "attention.sliding_window_pattern": [layer.window is not None for layer in layers],
        "attention.head_count_kv": [config.kv_heads_of(i).count for i in indices],
        "attention.key_length_swa": size,
        "attention.value_length_swa": size,
        "attention.shared_kv_layers": config.num_layers - len(config.key_layers),
        "feed_forward_length": [config.mlp_width_of(i) for i in indices],
        "embedding_length_per_layer_input": config.layer_input_width,
        "rope.freq_base_swa": rope.theta,
        "rope.dimension_count_swa": rope.size,
    }


_HF_TYPE = HFModelType(
    name="gemma4_text",
    read=_read_hf,
    multimodal_types=("gemma4",),
    context=131072,
    theta=1000000.0,
    activation="gelu_pytorch_tanh",
    tied=True,
    vocab_size=262144,
    heads=8,
    kv_heads=4,
    head_size=256,
)
FAMILY = Family(
    name="gemma4",
    norm_placement=NormPlacement.BOTH,
    query_key_norm=QueryKeyNorm.EACH_HEAD_AND_VALUES,
    read_gguf=_read_gguf,
    hf_layer_names=LAYER_NAMES,
    hf_parts=_hf_parts,
    has_experts=True,
    has_layer_shapes=True,
    gguf_keys=_gguf_keys,
    hf_types=(
        _HF_TYPE,
        replace(
            _HF_TYPE,
            name="gemma4_unified_text",
            read=_read_unified,
            multimodal_types=("gemma4_unified",),
            context=262144,
        ),
    ),
)
