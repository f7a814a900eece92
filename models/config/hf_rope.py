"""RoPE settings of a `config.json`, as any version of transformers writes them.

Before transformers 5 the settings were in `rope_scaling` and beside it; since then all of them are
in `rope_parameters`, nested by the kind of layer if kinds differ.
"""

from __future__ import annotations

import math
from dataclasses import replace

from .config_fields import MAX_CONTEXT, ConfigFields
from .model_config import RopeConfig
from .rope_scaling import (
    linear_factors,
    llama3_factors,
    longrope_attention_factor,
    proportional_factors,
    yarn_attention_factor,
    yarn_factors,
)
from .rope_sections import axis_sections

GLOBAL, LOCAL = "full_attention", "sliding_attention"


def rope_from_hf(
    fields: ConfigFields,
    head_size: int,
    *,
    context: int,
    theta: float,
    share: float = 1.0,
    rotates_all: bool = False,
) -> RopeConfig:
    """The RoPE of layers without a window; `theta` and the rotated `share` are the defaults.

    With `rotates_all` a share in the file is of no other elements than `head_size`.
    """
    settings = _settings(fields)
    settings = settings.group(GLOBAL) or settings
    where = settings if "partial_rotary_factor" in settings else fields
    share = 1.0 if rotates_all else where.number("partial_rotary_factor", share, high=1.0)
    size = int(head_size * share)
    if size < 2 or size % 2:
        fields.fail(f"rotates {size} elements of a head, which are not pairs")
    where = settings if "rope_theta" in settings else fields
    theta = where.number("rope_theta", theta, low=1.0)
    if _kind(settings) == "proportional":
        if head_size % 2:
            fields.fail(f"rotates heads of {head_size} elements, which are not pairs")
        factors = proportional_factors(head_size, size)
        return RopeConfig(theta=theta, size=head_size, factors=factors)
    return _scaled(fields, settings, RopeConfig(theta=theta, size=size), context)


def local_rope_from_hf(
    fields: ConfigFields, rope: RopeConfig, *, key: str, theta: float
) -> RopeConfig:
    """The RoPE of layers with a window, which is never scaled; `key` was its theta's name."""
    settings = _settings(fields).group(LOCAL)
    if settings is None:
        return RopeConfig(theta=fields.number(key, theta, low=1.0), size=rope.size)
    if _kind(settings) != "default":
        fields.refuse(f"stretches the context of {LOCAL!r} layers", "Use a GGUF file of the model.")
    return RopeConfig(theta=settings.number("rope_theta", theta, low=1.0), size=rope.size)


def yarn_sharpness_from_hf(fields: ConfigFields) -> float:
    """What scores of latent attention are scaled by, twice, in a context stretched by YaRN."""
    settings, key = _settings(fields), "mscale_all_dim"
    if _kind(settings) != "yarn" or not settings.says_something(key):
        return 1.0
    return yarn_attention_factor(_factor(settings), settings.number(key))


def _settings(fields: ConfigFields) -> ConfigFields:
    return fields.group("rope_parameters") or fields.group("rope_scaling") or fields.nothing()


def _kind(settings: ConfigFields) -> str:
    return settings.text("rope_type" if "rope_type" in settings else "type", "default")


def _scaled(
    fields: ConfigFields, settings: ConfigFields, rope: RopeConfig, context: int
) -> RopeConfig:
    kind = _kind(settings)
    if kind in ("default", "mrope"):
        key = "mrope_section"
        if key not in settings or settings.says_something("mrope_interleaved"):
            return rope
        return replace(rope, sections=axis_sections(settings, key, rope.size))
    if kind == "linear":
        return replace(rope, factors=linear_factors(rope.size, _factor(settings)))
    if kind == "dynamic" and "alpha" in settings:
        return _stretched_base(settings, rope)
    key = "original_max_position_embeddings"
    where = fields if key in fields else settings
    original = where.integer(key, 2, MAX_CONTEXT, context)
    if kind == "llama3":
        return replace(rope, factors=_llama3(settings, rope, original))
    if kind in ("longrope", "su") or "long_factor" in settings:  # Phi-3 once called its own YaRN
        return _longrope(settings, rope, context, original)
    if kind != "yarn":
        fields.refuse(
            f"stretches its context in the way {kind!r}, which ingle does not know",
            "Use a GGUF file of the model: llama.cpp may run it.",
        )
    return _yarn(settings, rope, context, original)


def _factor(settings: ConfigFields) -> float:
    factor = settings.number("factor")
    if factor < 1.0:
        settings.fail(f"stretches its context by {factor:g}")
    return factor


def _stretched_base(settings: ConfigFields, rope: RopeConfig) -> RopeConfig:
    """Hunyuan's NTK-aware scaling: a larger base, whatever the length of the text."""
    alpha = settings.number("alpha", low=1e-6, high=1e6)
    if rope.size < 4:
        settings.fail(f"stretches the base of {rope.size} rotated elements")
    theta = rope.theta * alpha ** (rope.size / (rope.size - 2))
    if not 1.0 < theta < math.inf:
        settings.fail(f"stretches the base to {theta:g}")
    return replace(rope, theta=theta)


def _llama3(settings: ConfigFields, rope: RopeConfig, original: int) -> tuple[float, ...]:
    low, high = settings.number("low_freq_factor"), settings.number("high_freq_factor")
    if high <= low:
        settings.fail(f"has a 'high_freq_factor' of {high:g}, which is not above {low:g}")
    return llama3_factors(
        rope.theta,
        rope.size,
        factor=_factor(settings),
        low_frequency=low,
        high_frequency=high,
        original_context=original,
    )


def _longrope(settings: ConfigFields, rope: RopeConfig, context: int, original: int) -> RopeConfig:
    factor = settings.number("factor", context / original)
    sharpness = longrope_attention_factor(factor, original)
    return replace(
        rope,
        factors=settings.numbers("short_factor", rope.size // 2),
        long_factors=settings.numbers("long_factor", rope.size // 2),
        original_context=original,
        attention_factor=settings.number("attention_factor", sharpness),
    )


def _yarn(settings: ConfigFields, rope: RopeConfig, context: int, original: int) -> RopeConfig:
    given = "factor" in settings
    factor = _factor(settings) if given else context / original
    sharpness = yarn_attention_factor(factor)
    if "mscale" in settings and "mscale_all_dim" in settings:
        above, below = settings.number("mscale"), settings.number("mscale_all_dim")
        sharpness = yarn_attention_factor(factor, above) / yarn_attention_factor(factor, below)
    factors = yarn_factors(
        rope.theta,
        rope.size,
        factor=factor,
        original_context=original,
        beta_fast=settings.number("beta_fast", 32.0),
        beta_slow=settings.number("beta_slow", 1.0),
        whole_bounds=settings.flag("truncate", default=True),
    )
    sharpness = settings.number("attention_factor", sharpness)
    rope = replace(rope, factors=factors, attention_factor=sharpness)
    if "llama_4_scaling_beta" not in settings:
        return rope
    temperature = settings.number("llama_4_scaling_beta")
    return replace(rope, temperature=temperature, original_context=original)
