"""The configuration of a model, from the header of its GGUF file.

Sources: what llama.cpp reads and writes, `src/models/*.cpp` and `conversion/*.py` there.
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace

from ..config.config_fields import MAX_CONTEXT, ConfigFields
from ..config.model_config import LayerConfig, ModelConfig, RopeConfig
from ..config.rope_scaling import linear_factors, yarn_attention_factor, yarn_factors
from ..errors import InvalidModel
from ..gguf.gguf_header import GGUFHeader
from .family import Family
from .family_registry import FAMILIES

_OTHER_ENGINE = "Let llama.cpp run it."
_MAX_WIDTH = 1 << 20


def config_from_gguf(header: GGUFHeader) -> ModelConfig:
    """The model's configuration.

    Raises `UnsupportedModel` for a family or a feature that the engine does not know, and
    `InvalidModel` if the header contradicts itself.
    """
    fields = _fields(header)
    family = FAMILIES.get(header.architecture)
    if family is None:
        fields.refuse(
            f"has the architecture {header.architecture!r}, which ingle's own engine does not know",
            _OTHER_ENGINE,
        )
    if not family.has_experts and fields.integer("expert_count", 0, 1 << 14, 0):
        reason = "is a mixture of experts, which ingle's own engine lacks for its architecture"
        fields.refuse(reason, _OTHER_ENGINE)
    drafting = 0
    if family.has_draft_layers:
        drafting = fields.integer("nextn_predict_layers", 0, header.block_count - 1, 0)
    config = _common(header, fields, header.block_count - drafting, family)
    return family.read_gguf(fields, config)


def _fields(header: GGUFHeader) -> ConfigFields:
    prefix = f"{header.architecture}."
    named = {**header.metadata, **header.per_layer}
    return ConfigFields(
        {key.removeprefix(prefix): named[key] for key in named if key.startswith(prefix)},
        str(header.path),
    )


def _common(header: GGUFHeader, fields: ConfigFields, layers: int, family: Family) -> ModelConfig:
    """The settings that all families have, with RoPE in every layer."""
    if not fields.flag("attention.causal", default=True):
        fields.refuse("reads in both directions, which ingle's own engine cannot", _OTHER_ENGINE)
    heads = _uniform(fields, "attention.head_count", 1024, family)
    kv_heads = heads
    if "attention.head_count_kv" in fields:
        kv_heads = _uniform(fields, "attention.head_count_kv", 1024, family)
    size = header.key_length
    if header.value_length != size and not family.has_latents:
        fields.refuse(f"has keys of {size} and values of {header.value_length}", _OTHER_ENGINE)
    mlp = "feed_forward_length"
    if mlp not in fields and f"expert_{mlp}" in fields:
        mlp = f"expert_{mlp}"
    epsilon = "attention.layer_norm_rms_epsilon"
    if epsilon not in fields and "attention.layer_norm_epsilon" in fields:
        epsilon = "attention.layer_norm_epsilon"
    if not header.vocab_size:
        fields.fail("does not say how many tokens it knows")
    rope = rope_from_gguf(header, fields, size)
    return ModelConfig(
        architecture=header.architecture,
        vocab_size=header.vocab_size,
        hidden_size=header.embedding_length,
        intermediate_size=_uniform(fields, mlp, _MAX_WIDTH, family),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_size=size,
        context=fields.integer("context_length", 1, MAX_CONTEXT),
        norm_epsilon=fields.number(epsilon, high=1.0),
        layers=(LayerConfig(rope=rope),) * layers,
        attention_scale=size**-0.5,
        tied_embeddings=all(tensor.name != "output.weight" for tensor in header.tensors),
    )


def _uniform(fields: ConfigFields, key: str, high: int, family: Family) -> int:
    """The value that all layers have, or all that are not zero if some may be of another kind.

    Raises `UnsupportedModel` if they differ, unless the family reads that itself.
    """
    values = set(fields.integers(key, 0, high))
    if family.has_layer_shapes:
        values = {max(values, default=0)}
    if family.has_states and len(values) > 1:
        values.discard(0)
    if len(values) != 1 or values == {0}:
        fields.refuse(f"has layers that differ in their {key!r}", _OTHER_ENGINE)
    return values.pop()


def rope_from_gguf(header: GGUFHeader, fields: ConfigFields, head_size: int) -> RopeConfig:
    """The embedding of layers without a window.

    Raises `InvalidModel` for settings that contradict themselves and `UnsupportedModel` for an
    unknown type of scaling.
    """
    size = fields.integer("rope.dimension_count", 2, head_size, head_size)
    if size % 2:
        fields.fail(f"rotates {size} elements of a head, which are not pairs")
    rope = RopeConfig(
        theta=fields.number("rope.freq_base", 10000.0, low=1.0),
        size=size,
        attention_factor=fields.number("rope.scaling.attn_factor", 1.0),
    )
    key = "rope.scaling.original_context_length"
    original = fields.integer(key, 1, MAX_CONTEXT, header.context)
    short = _read_factors(header, "rope_factors_short.weight", size // 2)
    long = _read_factors(header, "rope_factors_long.weight", size // 2)
    if long is not None:
        return replace(rope, factors=short or (), long_factors=long, original_context=original)
    divisors = _read_factors(header, "rope_freqs.weight", size // 2)  # Llama 3's
    if divisors is not None:
        return replace(rope, factors=divisors)
    return _scaled_rope(fields, rope, original)


def _scaled_rope(fields: ConfigFields, rope: RopeConfig, original_context: int) -> RopeConfig:
    """The embedding scaled as the header's keys say."""
    kind = fields.text("rope.scaling.type", "linear")
    key = "rope.scaling.factor" if "rope.scaling.factor" in fields else "rope.scale_linear"
    factor = fields.number(key, 1.0, low=-1.0) or 1.0  # zero stands for no scaling
    if kind in ("none", "longrope") or factor == 1.0:
        return rope
    if factor < 1.0:
        fields.fail(f"stretches its context by {factor:g}")
    if kind == "linear":
        return replace(rope, factors=linear_factors(rope.size, factor))
    if kind != "yarn":
        fields.refuse(f"stretches its context in the way {kind!r}", "Let llama.cpp run it.")
    factors = yarn_factors(
        rope.theta,
        rope.size,
        factor=factor,
        original_context=original_context,
        beta_fast=fields.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=fields.number("rope.scaling.yarn_beta_slow", 1.0),
    )
    sharpness = rope.attention_factor * yarn_attention_factor(factor)
    if (key := "rope.scaling.yarn_log_multiplier") in fields:
        sharpness /= yarn_attention_factor(factor, max(0.0, fields.number(key, low=-1.0)))
    return replace(rope, factors=factors, attention_factor=sharpness)


def _read_factors(header: GGUFHeader, name: str, count: int) -> tuple[float, ...] | None:
    """The `count` positive values of a tensor, or None if the file has no such tensor.

    Raises `InvalidModel` for another type or length, and for values that are not positive.
    """
    tensor = next((tensor for tensor in header.tensors if tensor.name == name), None)
    if tensor is None:
        return None
    if tensor.type != "F32" or tensor.shape != (count,):
        raise InvalidModel(
            f"{header.path} has {tensor.shape} values of type {tensor.type} in {name!r} where "
            f"{count} of type F32 belong.",
            hint="Use another conversion of the model.",
        )
    with header.files[tensor.file].open("rb") as file:
        file.seek(tensor.offset)
        values = struct.unpack(f"<{count}f", file.read(4 * count))
    if not all(math.isfinite(value) and value > 0 for value in values):
        raise InvalidModel(
            f"{header.path} has numbers in {name!r} that are not positive.",
            hint="Download it again: the file is damaged.",
        )
    return values
