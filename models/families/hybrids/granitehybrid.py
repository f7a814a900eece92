"""Granite 4 hybrid: Granite whose layers are state spaces, or attention without RoPE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...config.config_fields import ConfigFields
from ...config.expert_fields import (
    expert_width,
    experts_from_gguf,
    experts_from_hf,
    with_experts,
)
from ...config.model_config import ModelConfig
from ...config.recurrent_fields import layers_without_heads, with_recurrent_layers
from ...config.state_space_fields import (
    state_space_from_gguf,
    state_space_from_hf,
    state_space_keys,
)
from .. import granite
from ..family import HF_EXPERT_NAMES, Family, GGUFValue, HFModelType, StoredRows

_FIELDS = {
    "heads": "mamba_n_heads",
    "head_size": "mamba_d_head",
    "groups": "mamba_n_groups",
    "state_size": "mamba_d_state",
    "kernel": "mamba_d_conv",
}
_DEFAULTS = {"heads": 128, "groups": 1, "state_size": 256, "kernel": 4}
_RECURRENT = frozenset({"linear_attention", "mamba"})
_SHARED_GATE_AND_UP = "shared_mlp.input_linear.weight"
_LAYER_NAMES = {
    **HF_EXPERT_NAMES,
    "mamba.in_proj": "ssm_in",
    "mamba.conv1d": "ssm_conv1d",
    "mamba.norm": "ssm_norm",
    "mamba.out_proj": "ssm_out",
}
_OTHER_PARTS = {"mamba.A_log": "ssm_a", "mamba.D": "ssm_d", "mamba.dt_bias": "ssm_dt.bias"}


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = granite.read_scales_from_gguf(fields, config)
    if fields.integer("expert_count", 0, 1 << 14, 0):
        experts = experts_from_gguf(fields, config)
        key = "expert_shared_feed_forward_length"
        shared = expert_width(fields, key) if key in fields else 0
        config = with_experts(config, replace(experts, shared_width=shared))
    where = layers_without_heads(fields, config.num_layers)
    return with_recurrent_layers(config, state_space_from_gguf(fields), where)


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = granite.read_scales_from_hf(fields, config)
    shared = expert_width(fields, "shared_intermediate_size", 1024)
    if fields.integer("num_local_experts", 0, 1 << 14, 8):
        experts = experts_from_hf(fields, width=config.intermediate_size, used=2, count=8)
        config = with_experts(config, replace(experts, shared_width=shared))
    else:
        config = replace(config, intermediate_size=shared)
    if fields.text("position_embedding_type", "nope") != "rope":
        layers = tuple(replace(layer, rope=None) for layer in config.layers)
        config = replace(config, layers=layers)
    count = config.num_layers
    where = [True] * count
    if "layer_types" in fields:
        where = [kind in _RECURRENT for kind in fields.texts("layer_types", count)]
    heads = fields.integer(_FIELDS["heads"], 1, 1 << 14, _DEFAULTS["heads"])
    width = fields.integer("mamba_expand", 1, 64, 2) * config.hidden_size
    defaults = {**_DEFAULTS, "head_size": max(1, width // heads)}
    names = dict(_FIELDS)
    if fields.is_text(names["head_size"]):  # "auto"
        names["head_size"] = "mamba_head_size_of_auto"
    return with_recurrent_layers(config, state_space_from_hf(fields, names, defaults), where)


def _hf_parts(part: str, config: ModelConfig) -> Mapping[str, StoredRows] | None:
    if part in _OTHER_PARTS:
        return {_OTHER_PARTS[part]: StoredRows()}
    experts = config.layers[0].experts
    end = "" if experts is None else "_shexp"
    width = config.intermediate_size if experts is None else experts.shared_width
    if part == _SHARED_GATE_AND_UP:
        return {
            f"ffn_gate{end}.weight": StoredRows(range(width), 2 * width),
            f"ffn_up{end}.weight": StoredRows(range(width, 2 * width), 2 * width),
        }
    if part == "shared_mlp.output_linear.weight":
        return {f"ffn_down{end}.weight": StoredRows()}
    return None


def _gguf_keys(config: ModelConfig) -> Mapping[str, GGUFValue]:
    has_rope = any(layer.rope is not None for layer in config.layers)
    return {
        **granite.gguf_keys(config),
        **state_space_keys(config),
        "rope.scaling.finetuned": has_rope,
    }


FAMILY = Family(
    name="granitehybrid",
    read_gguf=_read_gguf,
    hf_layer_names=_LAYER_NAMES,
    hf_parts=_hf_parts,
    has_experts=True,
    has_states=True,
    gguf_keys=_gguf_keys,
    gguf_interleaves_heads=True,
    hf_types=(HFModelType(name="granitemoehybrid", read=_read_hf),),
)
