"""The shape of a model, from the `config.json` beside its safetensors files.

Source: transformers' configuration classes, whose defaults hold where a file leaves something out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import cast

from .config_fields import ConfigFields
from .hf_rope import LOCAL, local_rope_from_hf, rope_from_hf
from .model_config import Activation, LayerConfig, ModelConfig

_OTHER_WAY = "Use a GGUF file of the model: llama.cpp may run it."
_MAX_CONTEXT = 1 << 26
_ACTIVATIONS = MappingProxyType(
    {
        "silu": Activation.SILU,
        "swish": Activation.SILU,
        "gelu_pytorch_tanh": Activation.GELU_TANH,
    }
)


@dataclass(frozen=True, kw_only=True)
class _Family:
    """A model type: GGUF's name for it, what its files may leave out, and what sets it apart."""

    architecture: str
    adjust: Callable[[ConfigFields, ModelConfig], ModelConfig]
    context: int = 2048
    epsilon: float = 1e-6
    theta: float = 10000.0
    activation: str = "silu"
    tied: bool = False
    vocab_size: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_size: int | None = None


def config_from_hf(config: Mapping[str, object]) -> ModelConfig:
    """The model's shape.

    Raises `UnsupportedModel` for a model whose family or way of working the engine does not know,
    and `InvalidModel` where a setting is missing, of the wrong type or out of its range.
    """
    fields = _text_fields(config)
    kind = fields.text("model_type")
    family = _FAMILIES.get(kind)
    if family is None:
        fields.refuse(f"has the model type {kind!r}, which ingle does not know", _OTHER_WAY)
    return family.adjust(fields, _common(fields, family))


def _text_fields(config: Mapping[str, object]) -> ConfigFields:
    """The settings; of a Gemma 3 that also sees images, those of its text half."""
    fields = ConfigFields(config, "config.json")
    if fields.group("text_config") is None:
        return fields
    if fields.text("model_type") != "gemma3":
        fields.refuse("is that of a model which is not for text alone", _OTHER_WAY)
    text = cast("Mapping[str, object]", config["text_config"])
    return ConfigFields({**config, **text, "model_type": "gemma3_text"}, "config.json")


def _common(fields: ConfigFields, family: _Family) -> ModelConfig:
    """What all families have, and a rotary embedding in every layer."""
    hidden = fields.integer("hidden_size", 1, 1 << 17)
    heads = fields.integer("num_attention_heads", 1, 1024, family.heads)
    kv_heads = fields.integer("num_key_value_heads", 1, 1024, family.kv_heads or heads)
    size = fields.integer("head_dim", 2, 1 << 13, family.head_size or max(hidden // heads, 1))
    context = fields.integer("max_position_embeddings", 1, _MAX_CONTEXT, family.context)
    if heads % kv_heads:
        fields.fail(f"shares {kv_heads} key and value heads among {heads} heads")
    rope = rope_from_hf(fields, size, context=context, theta=family.theta)
    return ModelConfig(
        architecture=family.architecture,
        vocab_size=fields.integer("vocab_size", 1, 1 << 22, family.vocab_size),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size", 1, 1 << 20),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_size=size,
        context=context,
        norm_epsilon=fields.number("rms_norm_eps", family.epsilon, high=1.0),
        layers=(LayerConfig(rope=rope),) * fields.integer("num_hidden_layers", 1, 512),
        activation=_activation(fields, family),
        attention_scale=size**-0.5,
        tied_embeddings=fields.flag("tie_word_embeddings", family.tied),
    )


def _activation(fields: ConfigFields, family: _Family) -> Activation:
    key = "hidden_activation" if "hidden_activation" in fields else "hidden_act"
    name = fields.text(key, family.activation)
    if name not in _ACTIVATIONS:
        fields.refuse(f"has the activation {name!r}, which ingle does not know", _OTHER_WAY)
    return _ACTIVATIONS[name]


def _window(fields: ConfigFields, default: int | None = None) -> int | None:
    """Tokens that a local layer sees; a file may say that there is no window."""
    key = "sliding_window"
    if fields.says_none(key) or (default is None and key not in fields):
        return None
    return fields.integer(key, 1, _MAX_CONTEXT, default)


def _local_layers(
    fields: ConfigFields, count: int, is_local: Callable[[int], bool]
) -> tuple[bool, ...]:
    """Which layers have the window: as the file lists them, else as `is_local` says."""
    if "layer_types" in fields:
        return tuple(kind == LOCAL for kind in fields.texts("layer_types", count))
    return tuple(is_local(index) for index in range(count))


def _with_windows(
    fields: ConfigFields, config: ModelConfig, local: LayerConfig, is_local: Callable[[int], bool]
) -> ModelConfig:
    where = _local_layers(fields, config.num_layers, is_local)
    layers = tuple(
        local if here else layer for layer, here in zip(config.layers, where, strict=True)
    )
    return replace(config, layers=layers)


def _llama(_fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return config


def _everywhere(config: ModelConfig, window: int | None) -> ModelConfig:
    return replace(config, layers=tuple(replace(layer, window=window) for layer in config.layers))


def _mistral(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return _everywhere(config, _window(fields, 4096))


def _phi3(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return _everywhere(config, _window(fields))


def _qwen(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    if not fields.flag("use_sliding_window", default=False):
        return config
    first = fields.integer("max_window_layers", 0, 1024, 28)
    local = replace(config.layers[0], window=_window(fields, 4096))
    return _with_windows(fields, config, local, lambda index: index >= first)


def _gemma(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    if fields.flag("use_bidirectional_attention", default=False):
        fields.refuse("is that of a model which reads in both directions", _OTHER_WAY)
    return replace(
        config,
        attention_scale=fields.number("query_pre_attn_scalar", 256.0) ** -0.5,
        embedding_scale=math.sqrt(config.hidden_size),
    )


def _soft_cap(fields: ConfigFields, key: str, default: float | None) -> float | None:
    if fields.says_none(key) or (default is None and key not in fields):
        return None
    return fields.number(key, default)


def _gemma2(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = replace(
        _gemma(fields, config),
        attention_soft_cap=_soft_cap(fields, "attn_logit_softcapping", 50.0),
        final_soft_cap=_soft_cap(fields, "final_logit_softcapping", 30.0),
    )
    local = replace(config.layers[0], window=_window(fields, 4096))
    return _with_windows(fields, config, local, lambda index: index % 2 == 0)


def _gemma3(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = replace(
        _gemma(fields, config),
        attention_soft_cap=_soft_cap(fields, "attn_logit_softcapping", None),
        final_soft_cap=_soft_cap(fields, "final_logit_softcapping", None),
    )
    rope = config.layers[0].rope
    assert rope is not None
    local = LayerConfig(
        window=_window(fields, 4096),
        rope=local_rope_from_hf(fields, rope, key="rope_local_base_freq", theta=10000.0),
    )
    period = fields.integer("sliding_window_pattern", 1, 1024, 6)
    return _with_windows(fields, config, local, lambda index: (index + 1) % period != 0)


def _granite(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return replace(
        config,
        attention_scale=fields.number("attention_multiplier", 1.0),
        embedding_scale=fields.number("embedding_multiplier", 1.0),
        residual_scale=fields.number("residual_multiplier", 1.0),
        logit_scale=1 / fields.number("logits_scaling", 1.0),
    )


def _smollm3(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    count = config.num_layers
    period = fields.integer("no_rope_layer_interval", 1, 1024, 4)
    rotates = tuple((index + 1) % period != 0 for index in range(count))
    if "no_rope_layers" in fields:
        rotates = fields.flags("no_rope_layers", count)
    layers = tuple(
        layer if has_rope else replace(layer, rope=None)
        for layer, has_rope in zip(config.layers, rotates, strict=True)
    )
    window = _window(fields) if fields.flag("use_sliding_window", default=False) else None
    local = _local_layers(fields, count, lambda index: not rotates[index])
    layers = tuple(
        replace(layer, window=window) if here else layer
        for layer, here in zip(layers, local, strict=True)
    )
    return replace(config, layers=layers)


def _olmo3(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    rope = config.layers[0].rope
    assert rope is not None
    local = LayerConfig(
        window=_window(fields, 4096),
        rope=local_rope_from_hf(fields, rope, key="rope_theta", theta=rope.theta),
    )
    return _with_windows(fields, config, local, lambda index: (index + 1) % 4 != 0)


_FAMILIES: Mapping[str, _Family] = MappingProxyType(
    {
        "llama": _Family(architecture="llama", adjust=_llama),
        "mistral": _Family(architecture="llama", adjust=_mistral, context=131072, kv_heads=8),
        "qwen2": _Family(architecture="qwen2", adjust=_qwen, context=32768),
        "qwen3": _Family(architecture="qwen3", adjust=_qwen, context=32768, head_size=128),
        "gemma2": _Family(
            architecture="gemma2",
            adjust=_gemma2,
            context=8192,
            activation="gelu_pytorch_tanh",
            tied=True,
            vocab_size=256000,
            heads=8,
            kv_heads=4,
            head_size=256,
        ),
        "gemma3_text": _Family(
            architecture="gemma3",
            adjust=_gemma3,
            context=131072,
            theta=1000000.0,
            activation="gelu_pytorch_tanh",
            tied=True,
            vocab_size=262208,
            heads=8,
            kv_heads=4,
            head_size=256,
        ),
        "phi3": _Family(architecture="phi3", adjust=_phi3, context=4096, epsilon=1e-5),
        "granite": _Family(architecture="granite", adjust=_granite),
        "smollm3": _Family(
            architecture="smollm3", adjust=_smollm3, context=32768, theta=2000000.0, tied=True
        ),
        "olmo2": _Family(architecture="olmo2", adjust=_llama, epsilon=1e-5),
        "olmo3": _Family(architecture="olmo2", adjust=_olmo3, epsilon=1e-5, theta=500000.0),
    }
)
