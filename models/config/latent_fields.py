"""Latent attention (MLA), as GGUF headers and config.json files describe it."""

from __future__ import annotations

from dataclasses import replace

from .config_fields import MAX_CONTEXT, ConfigFields
from .hf_rope import rope_from_hf, yarn_sharpness_from_hf
from .model_config import LatentConfig, ModelConfig, RopeConfig
from .rope_scaling import yarn_attention_factor

_LONGEST = 1 << 13
_WIDEST = 1 << 17
_HF_EPSILON = 1e-6
"""That of transformers' norms of latents, whatever the model's is."""
_LOG_FACTOR = 0.1
"""By which `yarn_log_multiplier` is smaller than the weight that it stands for."""


def latent_from_hf(fields: ConfigFields, config: ModelConfig, *, theta: float) -> ModelConfig:
    """The configuration with the latent attention of a config.json; `theta` is the default."""
    if not fields.flag("rope_interleave", default=True):
        fields.refuse(
            "rotates the halves of keys, where latent attention rotates neighbours",
            "Use a GGUF file of the model: llama.cpp may run it.",
        )
    size = fields.integer("qk_rope_head_dim", 2, _LONGEST)
    if size % 2:
        fields.fail(f"rotates {size} elements of a head, which are not pairs")
    query_rank = 0
    if "q_lora_rank" in fields:
        query_rank = fields.integer("q_lora_rank", 1, _WIDEST)
    latent = LatentConfig(
        rank=fields.integer("kv_lora_rank", 1, _LONGEST),
        query_rank=query_rank,
        key_size=fields.integer("qk_nope_head_dim", 1, _LONGEST),
        value_size=fields.integer("v_head_dim", 1, _LONGEST),
        rope_size=size,
        norm_epsilon=_HF_EPSILON,
    )
    rope = rope_from_hf(fields, size, context=config.context, theta=theta, rotates_all=True)
    return _with_latent(config, latent, rope, yarn_sharpness_from_hf(fields))


def latent_from_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The configuration with the latent attention of a header.

    Files that were written before llama.cpp kept latents have the sizes of heads under other keys.
    """
    rope = config.layers[0].rope
    assert rope is not None
    sizes = "attention.key_length", "attention.value_length"
    if "attention.key_length_mla" in fields:
        sizes = "attention.key_length_mla", "attention.value_length_mla"
    size = fields.integer(sizes[0], 1, _LONGEST)
    if size <= rope.size:
        fields.fail(f"rotates {rope.size} elements of keys of {size}")
    latent = LatentConfig(
        rank=fields.integer("attention.kv_lora_rank", 1, _LONGEST),
        query_rank=fields.integer("attention.q_lora_rank", 0, _WIDEST, 0),
        key_size=size - rope.size,
        value_size=fields.integer(sizes[1], 1, _LONGEST),
        rope_size=rope.size,
        norm_epsilon=config.norm_epsilon,
    )
    if (key := "attention.temperature_scale") in fields:
        rope = replace(
            rope,
            temperature=fields.number(key),
            original_context=fields.integer("attention.temperature_length", 1, MAX_CONTEXT),
        )
    key = "rope.scaling.yarn_log_multiplier"
    if key not in fields or fields.text("rope.scaling.type", "none") != "yarn":
        return _with_latent(config, latent, rope, 1.0)
    weight = fields.number(key, low=-1.0) / _LOG_FACTOR
    factor = fields.number("rope.scaling.factor", 1.0, low=-1.0)
    # llama.cpp takes the weight of cosines for that of scores, so that they are not scaled.
    rope = replace(rope, attention_factor=fields.number("rope.scaling.attn_factor", 1.0))
    return _with_latent(config, latent, rope, yarn_attention_factor(factor, max(0.0, weight)))


def _with_latent(
    config: ModelConfig, latent: LatentConfig, rope: RopeConfig, sharpness: float
) -> ModelConfig:
    """Queries and keys are each scaled by `sharpness` in a stretched context."""
    return replace(
        config,
        latent=latent,
        num_kv_heads=1,
        head_size=latent.rank + latent.rope_size,
        layers=tuple(replace(layer, rope=rope) for layer in config.layers),
        attention_scale=(latent.key_size + latent.rope_size) ** -0.5 * sharpness**2,
    )
