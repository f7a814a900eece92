"""The rotary embedding that a GGUF header describes, by keys or by a tensor of factors."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

from ..errors import InvalidModel
from ..gguf.gguf_header import GGUFHeader
from .config_fields import MAX_CONTEXT, ConfigFields
from .model_config import RopeConfig
from .rope_scaling import linear_factors, yarn_attention_factor, yarn_factors


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
    return _scaled(fields, rope, original)


def _scaled(fields: ConfigFields, rope: RopeConfig, original_context: int) -> RopeConfig:
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
