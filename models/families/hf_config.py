"""The configuration of a model, from the `config.json` beside its safetensors files.

Source: transformers' configuration classes, whose defaults hold if a file leaves something out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ..config.config_fields import MAX_CONTEXT, ConfigFields
from ..config.hf_rope import rope_from_hf
from ..config.model_config import Activation, LayerConfig, ModelConfig, RopeConfig
from .family import Family, HFModelType
from .family_registry import HF_MODEL_TYPES

_OTHER_WAY = "Use a GGUF file of the model: llama.cpp may run it."
_ACTIVATIONS: Mapping[str, Activation] = {
    "silu": Activation.SILU,
    "swish": Activation.SILU,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
}


def config_from_hf(config: Mapping[str, object]) -> ModelConfig:
    """The model's configuration.

    Raises `UnsupportedModel` for a family or a feature that the engine does not know, and
    `InvalidModel` if a setting is missing, of the wrong type or out of its range.
    """
    fields = _text_fields(config)
    name = fields.text("model_type")
    if name not in HF_MODEL_TYPES:
        fields.refuse(f"has the model type {name!r}, which ingle does not know", _OTHER_WAY)
    family, kind = HF_MODEL_TYPES[name]
    return kind.read(fields, _common(fields, family, kind))


def _text_fields(config: Mapping[str, object]) -> ConfigFields:
    """The settings; those of its text half if the model also takes images."""
    fields = ConfigFields(config, "config.json")
    name = fields.text("model_type", "")
    halves = [kind.name for _, kind in HF_MODEL_TYPES.values() if name in kind.multimodal_types]
    if fields.group("text_config") is None and not halves:
        return fields
    # Older files of Qwen2.5-VL have the settings of the text half beside the group of the other.
    text = cast("Mapping[str, object]", config.get("text_config") or {})
    half = text.get("model_type") or next(iter(halves), None)
    if half not in halves:
        fields.refuse("is that of a model which is not for text alone", _OTHER_WAY)
    return ConfigFields({**config, **text, "model_type": half}, "config.json")


def _common(fields: ConfigFields, family: Family, kind: HFModelType) -> ModelConfig:
    """The settings that all families have, with RoPE in every layer but for latent attention."""
    hidden = fields.integer("hidden_size", 1, 1 << 17)
    heads = fields.integer("num_attention_heads", 1, 1024, kind.heads)
    kv_heads = fields.integer("num_key_value_heads", 1, 1024, kind.kv_heads or heads)
    size = fields.integer("head_dim", 2, 1 << 13, kind.head_size or max(hidden // heads, 1))
    context = fields.integer("max_position_embeddings", 1, MAX_CONTEXT, kind.context)
    if heads % kv_heads:
        fields.fail(f"shares {kv_heads} key and value heads among {heads} heads")
    rope: RopeConfig | None = None
    if not family.has_latents:
        share = kind.rotated_share
        rope = rope_from_hf(fields, size, context=context, theta=kind.theta, share=share)
    return ModelConfig(
        architecture=family.name,
        vocab_size=fields.integer("vocab_size", 1, 1 << 22, kind.vocab_size),
        hidden_size=hidden,
        intermediate_size=_mlp_width(fields, family),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_size=size,
        context=context,
        norm_epsilon=fields.number(kind.epsilon_key, kind.epsilon, high=1.0),
        layers=(LayerConfig(rope=rope),) * _layer_count(fields),
        activation=_activation(fields, kind),
        attention_scale=size**-0.5,
        tied_embeddings=fields.flag("tie_word_embeddings", kind.tied),
    )


def _layer_count(fields: ConfigFields) -> int:
    kinds = "layers_block_type"
    listed = fields.length(kinds) if fields.is_list(kinds) else None
    return fields.integer("num_hidden_layers", 1, 512, listed)


def _mlp_width(fields: ConfigFields, family: Family) -> int:
    key = "intermediate_size"
    if family.has_layer_shapes and fields.is_list(key):
        return max(fields.integers(key, 1, 1 << 20), default=1)
    if key not in fields and f"moe_{key}" in fields:
        key = f"moe_{key}"
    return fields.integer(key, 1, 1 << 20)


def _activation(fields: ConfigFields, kind: HFModelType) -> Activation:
    key = "hidden_activation" if "hidden_activation" in fields else "hidden_act"
    name = fields.text(key, kind.activation)
    if name not in _ACTIVATIONS:
        fields.refuse(f"has the activation {name!r}, which ingle does not know", _OTHER_WAY)
    return _ACTIVATIONS[name]
