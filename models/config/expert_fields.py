"""Mixtures of experts, as GGUF headers and config.json files describe them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .config_fields import ConfigFields
from .model_config import ExpertConfig, ExpertScores, ModelConfig

_MOST = 1 << 14
_WIDEST = 1 << 20
_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
_SCORES = {1: ExpertScores.SOFTMAX, 2: ExpertScores.SIGMOID, 3: ExpertScores.SOFTMAX}
"""ggml's numbers; the third is a softmax over those that were picked, which normalises them."""
_SOFTMAX_OF_PICKED = 3


def experts_from_gguf(
    fields: ConfigFields,
    config: ModelConfig,
    *,
    scores: ExpertScores = ExpertScores.SOFTMAX,
    normalized: bool = True,
) -> ExpertConfig:
    """The experts that a header describes, without shared ones; keywords are the defaults."""
    count = fields.integer("expert_count", 1, _MOST)
    kind = fields.integer("expert_gating_func", 0, 4, 0)
    if kind not in {0, *_SCORES}:
        fields.refuse(f"scores its experts in the way {kind}", "Let llama.cpp run it.")
    normalized = fields.flag("expert_weights_norm", normalized) or kind == _SOFTMAX_OF_PICKED
    # A scale of zero stands for none.
    scale = fields.number("expert_weights_scale", 1.0, low=-1.0) or 1.0
    width = fields.integer(
        "expert_feed_forward_length", 1, _WIDEST, max(1, config.intermediate_size)
    )
    groups = fields.integer("expert_group_count", 0, _MOST, 0) or 1
    experts = ExpertConfig(
        count=count,
        used=fields.integer("expert_used_count", 1, count),
        width=width,
        scores=_SCORES.get(kind, scores),
        normalized=normalized,
        scale=scale,
        groups=groups,
        groups_used=fields.integer("expert_group_used_count", 0, groups, groups) or groups,
    )
    return _checked(fields, experts)


def experts_from_hf(
    fields: ConfigFields,
    *,
    width: int,
    used: int | None = None,
    count: int | None = None,
    scores: ExpertScores = ExpertScores.SOFTMAX,
    normalized: bool = True,
) -> ExpertConfig:
    """The experts that a config.json describes, without shared ones; the others are defaults."""
    key = next((key for key in _COUNTS if key in fields), _COUNTS[0])
    number = fields.integer(key, 1, _MOST, count)
    groups = fields.integer("n_group", 1, number, 1)
    experts = ExpertConfig(
        count=number,
        used=fields.integer("num_experts_per_tok", 1, number, used),
        width=width,
        scores=scores,
        normalized=fields.flag("norm_topk_prob", normalized),
        scale=fields.number("routed_scaling_factor", 1.0),
        groups=groups,
        groups_used=fields.integer("topk_group", 1, groups, groups),
    )
    return _checked(fields, experts)


def expert_width(fields: ConfigFields, key: str, default: int | None = None) -> int:
    """The units of an MLP among experts."""
    return fields.integer(key, 1, _WIDEST, default)


def with_shared_expert(
    fields: ConfigFields, experts: ExpertConfig, key: str, default: int
) -> ExpertConfig:
    """The same with a shared one that has a gate, of the width that the field `key` gives."""
    width = expert_width(fields, key, default)
    return replace(experts, shared_width=width, shared_gate=True)


def with_experts(
    config: ModelConfig, experts: ExpertConfig, has_experts: Callable[[int], bool] | None = None
) -> ModelConfig:
    """The configuration with `experts` in every layer, or in those whose index is marked."""
    layers = tuple(
        replace(layer, experts=experts) if has_experts is None or has_experts(index) else layer
        for index, layer in enumerate(config.layers)
    )
    return replace(config, layers=layers)


def _checked(fields: ConfigFields, experts: ExpertConfig) -> ExpertConfig:
    """Raise `InvalidModel` unless groups are equal and large enough to take the experts from."""
    size, rest = divmod(experts.count, experts.groups)
    if rest or (experts.groups > 1 and size < 2) or size * experts.groups_used < experts.used:
        fields.fail(
            f"takes {experts.used} experts from {experts.groups_used} of {experts.groups} groups "
            f"of {experts.count}"
        )
    return experts
