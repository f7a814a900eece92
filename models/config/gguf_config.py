"""The shape of a model, from the header of its GGUF file.

Sources: what llama.cpp reads and writes, `src/models/*.cpp` and `conversion/*.py` there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ..gguf.gguf_floats import read_floats
from ..gguf.gguf_header import GGUFHeader
from .config_fields import ConfigFields
from .model_config import Activation, LayerConfig, ModelConfig, RopeConfig
from .rope_scaling import linear_factors, yarn_attention_factor, yarn_factors

_OTHER_ENGINE = "Let llama.cpp run it."
_MAX_CONTEXT = 1 << 26
_MAX_WIDTH = 1 << 20
# Query heads of the 27B editions are scaled by the width of the residual stream instead.
_GEMMA2_27B_LAYERS, _GEMMA3_27B_LAYERS = 46, 62
_SMOLLM3_NO_ROPE_PERIOD = 4


def config_from_gguf(header: GGUFHeader) -> ModelConfig:
    """The model's shape.

    Raises `UnsupportedModel` for a model whose family or way of working the engine does not know,
    and `InvalidModel` where the header contradicts itself.
    """
    fields = _fields(header)
    family = _FAMILIES.get(header.architecture)
    if family is None:
        fields.refuse(
            f"has the architecture {header.architecture!r}, which ingle's own engine does not know",
            _OTHER_ENGINE,
        )
    return family(fields, _common(header, fields))


def _fields(header: GGUFHeader) -> ConfigFields:
    prefix = f"{header.architecture}."
    named = {**header.metadata, **header.per_layer}
    return ConfigFields(
        {key.removeprefix(prefix): named[key] for key in named if key.startswith(prefix)},
        str(header.path),
    )


def _common(header: GGUFHeader, fields: ConfigFields) -> ModelConfig:
    """What all families have, and a rotary embedding in every layer."""
    _refuse_other_ways(fields)
    heads = _uniform(fields, "attention.head_count", 1024)
    kv_heads = heads
    if "attention.head_count_kv" in fields:
        kv_heads = _uniform(fields, "attention.head_count_kv", 1024)
    size = header.key_length
    if header.value_length != size:
        fields.refuse(f"has keys of {size} and values of {header.value_length}", _OTHER_ENGINE)
    if not header.vocab_size:
        fields.fail("does not say how many tokens it knows")
    rope = _rope(header, fields, fields.integer("rope.dimension_count", 2, size, size))
    return ModelConfig(
        architecture=header.architecture,
        vocab_size=header.vocab_size,
        hidden_size=header.embedding_length,
        intermediate_size=_uniform(fields, "feed_forward_length", _MAX_WIDTH),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_size=size,
        context=fields.integer("context_length", 1, _MAX_CONTEXT),
        norm_epsilon=fields.number("attention.layer_norm_rms_epsilon", high=1.0),
        layers=(LayerConfig(rope=rope),) * header.block_count,
        attention_scale=size**-0.5,
        tied_embeddings=all(tensor.name != "output.weight" for tensor in header.tensors),
    )


def _refuse_other_ways(fields: ConfigFields) -> None:
    if fields.integer("expert_count", 0, 1 << 14, 0):
        fields.refuse("is a mixture of experts, which ingle's own engine lacks", _OTHER_ENGINE)
    if not fields.flag("attention.causal", default=True):
        fields.refuse("reads in both directions, which ingle's own engine cannot", _OTHER_ENGINE)


def _uniform(fields: ConfigFields, key: str, high: int) -> int:
    """The number that all layers have."""
    values = set(fields.integers(key, 0, high))
    if len(values) != 1 or values == {0}:
        fields.refuse(f"has layers that differ in their {key!r}", _OTHER_ENGINE)
    return values.pop()


def _rope(header: GGUFHeader, fields: ConfigFields, size: int) -> RopeConfig:
    if size % 2:
        fields.fail(f"rotates {size} elements of a head, which are not pairs")
    rope = RopeConfig(
        theta=fields.number("rope.freq_base", 10000.0, low=1.0),
        size=size,
        attention_factor=fields.number("rope.scaling.attn_factor", 1.0),
    )
    key = "rope.scaling.original_context_length"
    original = fields.integer(key, 1, _MAX_CONTEXT, header.context)
    short = read_floats(header, "rope_factors_short.weight", size // 2)
    long = read_floats(header, "rope_factors_long.weight", size // 2)
    if long is not None:
        return replace(rope, factors=short or (), long_factors=long, original_context=original)
    divisors = read_floats(header, "rope_freqs.weight", size // 2)  # Llama 3's
    if divisors is not None:
        return replace(rope, factors=divisors)
    return _scaled(fields, rope, original)


def _scaled(fields: ConfigFields, rope: RopeConfig, original_context: int) -> RopeConfig:
    """Stretched as the header says in words rather than by a tensor of factors."""
    kind = fields.text("rope.scaling.type", "linear")
    key = "rope.scaling.factor" if "rope.scaling.factor" in fields else "rope.scale_linear"
    factor = fields.number(key, 1.0, low=-1.0) or 1.0  # zero says that there is none
    if kind in ("none", "longrope") or factor == 1.0:
        return rope
    if factor < 1.0:
        fields.fail(f"stretches its context by {factor:g}")
    if kind == "linear":
        return replace(rope, factors=linear_factors(rope.size, factor))
    if kind != "yarn":
        fields.refuse(f"stretches its context in the way {kind!r}", _OTHER_ENGINE)
    factors = yarn_factors(
        rope.theta,
        rope.size,
        factor=factor,
        original_context=original_context,
        beta_fast=fields.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=fields.number("rope.scaling.yarn_beta_slow", 1.0),
    )
    sharpness = rope.attention_factor * yarn_attention_factor(factor)
    return replace(rope, factors=factors, attention_factor=sharpness)


def _window(fields: ConfigFields, default: int = 0) -> int | None:
    return fields.integer("attention.sliding_window", 0, _MAX_CONTEXT, default) or None


def _local_layers(fields: ConfigFields, count: int, period: int) -> tuple[bool, ...]:
    """Which layers have the window: as the header lists them, else all but every `period`-th."""
    key = "attention.sliding_window_pattern"
    if fields.is_list(key):
        return fields.flags(key, count)
    period = fields.integer(key, 0, 1024, period)
    return tuple(period == 0 or (index + 1) % period != 0 for index in range(count))


def _with_windows(
    fields: ConfigFields, config: ModelConfig, local: LayerConfig, period: int
) -> ModelConfig:
    where = _local_layers(fields, config.num_layers, period)
    layers = tuple(
        local if is_local else layer for layer, is_local in zip(config.layers, where, strict=True)
    )
    return replace(config, layers=layers)


def _llama(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    scale = fields.number("attention.scale", config.attention_scale)
    window = _window(fields)  # Mistral 7B and Phi-3 see as much in every layer
    layers = tuple(replace(layer, window=window) for layer in config.layers)
    return replace(config, attention_scale=scale, layers=layers)


def _qwen(_fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    return config


def _gemma(config: ModelConfig, layers_of_27b: int) -> ModelConfig:
    of_27b = config.num_layers == layers_of_27b
    width = config.hidden_size // config.num_heads if of_27b else config.head_size
    return replace(
        config,
        activation=Activation.GELU_TANH,
        attention_scale=width**-0.5,
        embedding_scale=math.sqrt(config.hidden_size),
    )


def _gemma2(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = replace(
        _gemma(config, _GEMMA2_27B_LAYERS),
        attention_soft_cap=fields.number("attn_logit_softcapping", 50.0),
        final_soft_cap=fields.number("final_logit_softcapping", 30.0),
    )
    local = replace(config.layers[0], window=_window(fields, 4096))
    return _with_windows(fields, config, local, period=2)


def _gemma3(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    cap = fields.number("final_logit_softcapping", 0.0, low=-1.0)
    config = replace(_gemma(config, _GEMMA3_27B_LAYERS), final_soft_cap=cap or None)
    window = _window(fields)
    if window is None:
        return config
    # Local layers keep their own frequencies where global ones are stretched.
    rope = RopeConfig(
        theta=fields.number("rope.freq_base_swa", 10000.0, low=1.0),
        size=fields.integer("rope.dimension_count", 2, config.head_size, config.head_size),
    )
    return _with_windows(fields, config, LayerConfig(window=window, rope=rope), period=6)


def _granite(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = replace(
        config,
        attention_scale=fields.number("attention.scale", config.attention_scale),
        embedding_scale=fields.number("embedding_scale", 1.0),
        residual_scale=fields.number("residual_scale", 1.0),
        logit_scale=1 / fields.number("logit_scale"),
    )
    if fields.flag("rope.scaling.finetuned", default=True):
        return config
    return replace(config, layers=(LayerConfig(),) * config.num_layers)


def _smollm3(_fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    layers = tuple(
        layer if (index + 1) % _SMOLLM3_NO_ROPE_PERIOD else LayerConfig()
        for index, layer in enumerate(config.layers)
    )
    return replace(config, layers=layers)


def _olmo2(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    window, rope = _window(fields), config.layers[0].rope
    if window is None or rope is None:
        return config
    # OLMo 3 goes by the same name; its local layers are not stretched.
    plain = RopeConfig(theta=fields.number("rope.freq_base_swa", rope.theta), size=rope.size)
    return _with_windows(fields, config, LayerConfig(window=window, rope=plain), period=4)


_FAMILIES: Mapping[str, Callable[[ConfigFields, ModelConfig], ModelConfig]] = MappingProxyType(
    {
        "llama": _llama,
        "qwen2": _qwen,
        "qwen3": _qwen,
        "gemma2": _gemma2,
        "gemma3": _gemma3,
        "phi3": _llama,
        "granite": _granite,
        "smollm3": _smollm3,
        "olmo2": _olmo2,
    }
)

KNOWN_ARCHITECTURES = frozenset(_FAMILIES)
"""The families that ingle's own engine computes."""
