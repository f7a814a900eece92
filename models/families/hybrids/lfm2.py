"""LFM2: gated short convolutions in most layers, attention with norms on heads in the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ingle.kernels.recurrent.recurrent_shapes import ShortConvShape

from ...config.config_fields import ConfigFields
from ...config.model_config import ModelConfig
from ...config.recurrent_fields import (
    kv_head_counts,
    layers_without_heads,
    with_recurrent_layers,
)
from ..family import Family, GGUFValue, HFModelType, QueryKeyNorm

LAYER_NAMES = {
    "operator_norm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "conv.in_proj": "shortconv.in_proj",
    "conv.conv": "shortconv.conv",
    "conv.out_proj": "shortconv.out_proj",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down",
}
"""GGUF's name of each part of a layer, by its name in transformers."""
_MOST_INPUTS = 64


def _with_convolutions(config: ModelConfig, kernel: int, where: Iterable[bool]) -> ModelConfig:
    convolution = ShortConvShape(channels=config.hidden_size, kernel=kernel)
    return with_recurrent_layers(config, convolution, where)


def read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The convolutions, in the layers that have no heads."""
    kernel = fields.integer("shortconv.l_cache", 2, _MOST_INPUTS, 3)
    return _with_convolutions(config, kernel, layers_without_heads(fields, config.num_layers))


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    width = _mlp_width(fields, config.intermediate_size)
    return read_convolutions(fields, replace(config, intermediate_size=width))


def read_convolutions(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The convolutions, in the layers that have no attention."""
    kernel = fields.integer("conv_L_cache", 2, _MOST_INPUTS, 3)
    return _with_convolutions(config, kernel, _recurrent_layers(fields, config.num_layers))


def _recurrent_layers(fields: ConfigFields, count: int) -> Iterable[bool]:
    if "layer_types" in fields:
        return [kind == "conv" for kind in fields.texts("layer_types", count)]
    if "full_attn_idxs" not in fields:
        return [False] * count
    attending = fields.integers("full_attn_idxs", 0, count - 1)
    return [index not in attending for index in range(count)]


def _mlp_width(fields: ConfigFields, width: int) -> int:
    """The width of the MLPs, which files state as that of an MLP without gates."""
    width = fields.integer("block_ff_dim", 1, 1 << 20, width)
    if not fields.flag("block_auto_adjust_ff_dim", default=True):
        return width
    width = 2 * width // 3
    if fields.says_none(multiplier := "block_ffn_dim_multiplier"):
        return width
    step = fields.integer("block_multiple_of", 1, 1 << 20, 256)
    return -(-int(fields.number(multiplier, 1.0) * width) // step) * step


def gguf_keys(config: ModelConfig) -> Mapping[str, GGUFValue]:
    """The keys of the convolutions, and which layers have them."""
    kernels = {layer.recurrent.kernel for layer in config.layers if layer.recurrent}
    return {
        "attention.head_count_kv": kv_head_counts(config),
        "shortconv.l_cache": max(kernels, default=3),
    }


HF_TYPE = HFModelType(
    name="lfm2",
    read=_read_hf,
    context=128000,
    epsilon=1e-5,
    epsilon_key="norm_eps",
    theta=1000000.0,
    tied=True,
    vocab_size=65536,
    heads=32,
    kv_heads=8,
)
"""The defaults of transformers, which the edition with experts shares."""
FAMILY = Family(
    name="lfm2",
    query_key_norm=QueryKeyNorm.EACH_HEAD,
    read_gguf=read_gguf,
    hf_layer_names=LAYER_NAMES,
    has_states=True,
    gguf_keys=gguf_keys,
    gguf_output_norm="token_embd_norm",
    hf_types=(HF_TYPE,),
)
