"""Writes the hyper-parameters of a safetensors model as GGUF metadata.

Source: the keys that llama.cpp reads, `llama-arch.cpp` and `src/models/*.cpp` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ingle.models.config.model_config import ExpertScores, ModelConfig, RopeConfig
from ingle.models.errors import UnsupportedModel
from ingle.models.families.family_registry import find_family
from ingle.models.gguf.gguf_writer import Value
from ingle.models.json_object import read_json_object

Pairs = dict[str, Value]
_SIGMOID = 2
"""ggml's number of these scores of experts."""

_OTHER_WAY = "Look for a GGUF edition of the model, or run the folder as it is."


def model_pairs(folder: Path, config: ModelConfig, parameters: int) -> Pairs:
    """Return the keys of the model but for its vocabulary; raises `UnsupportedModel`."""
    shape: Pairs = {
        "context_length": config.context,
        "embedding_length": config.hidden_size,
        "block_count": config.num_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.num_kv_heads,
        "attention.key_length": config.head_size,
        "attention.value_length": config.head_size,
        "attention.layer_norm_rms_epsilon": config.norm_epsilon,
        "vocab_size": config.vocab_size,
    }
    shape |= _rope(folder, config) | _scales(config) | _experts(config)
    if windows := [layer.window for layer in config.layers if layer.window is not None]:
        shape["attention.sliding_window"] = max(windows)
    general: Pairs = {
        "general.architecture": config.architecture,
        "general.type": "model",
        "general.name": _name(folder),
        "general.parameter_count": parameters,
    }
    return general | {f"{config.architecture}.{key}": value for key, value in shape.items()}


def rope_tensors(config: ModelConfig) -> Mapping[str, tuple[float, ...]]:
    """Return divisors of the rotary frequencies that no key can express, by tensor name."""
    rope = _global_rope(config)
    if rope is None or not rope.factors:
        return {}
    if rope.long_factors:
        return {
            "rope_factors_long.weight": rope.long_factors,
            "rope_factors_short.weight": rope.factors,
        }
    return {"rope_freqs.weight": rope.factors} if not _is_linear(rope) else {}


def _rope(folder: Path, config: ModelConfig) -> Pairs:
    rope = _global_rope(config)
    if rope is None:
        return {}
    pairs: Pairs = {"rope.freq_base": rope.theta, "rope.dimension_count": rope.size}
    if rope.long_factors:
        pairs["rope.scaling.original_context_length"] = rope.original_context
        pairs["rope.scaling.attn_factor"] = rope.attention_factor
    elif rope.factors and _is_linear(rope):
        pairs |= {"rope.scaling.type": "linear", "rope.scaling.factor": rope.factors[0]}
    elif rope.attention_factor != 1.0:
        raise UnsupportedModel(
            f"{folder} stretches its context by YaRN, which cannot be written into a file here.",
            hint=_OTHER_WAY,
        )
    if rope.temperature:
        pairs["attention.temperature_scale"] = rope.temperature
        pairs["rope.scaling.original_context_length"] = rope.original_context
    return pairs


def _scales(config: ModelConfig) -> Pairs:
    """Return keys of some families only; a later read of the file detects omissions."""
    pairs: Pairs = {}
    if config.attention_soft_cap is not None:
        pairs["attn_logit_softcapping"] = config.attention_soft_cap
    if config.final_soft_cap is not None:
        pairs["final_logit_softcapping"] = config.final_soft_cap
    pairs.update(find_family(config.architecture).gguf_keys(config))
    return pairs


def _experts(config: ModelConfig) -> Pairs:
    """Return the keys of a mixture of experts."""
    experts = next((layer.experts for layer in config.layers if layer.experts is not None), None)
    if experts is None:
        return {}
    pairs: Pairs = {
        "expert_count": experts.count,
        "expert_used_count": experts.used,
        "expert_feed_forward_length": experts.width,
    }
    if experts.shared_width:
        pairs["expert_shared_feed_forward_length"] = experts.shared_width
        pairs["expert_shared_count"] = experts.shared_width // experts.width
    if experts.scores is ExpertScores.SIGMOID:
        pairs["expert_gating_func"] = _SIGMOID
        pairs["expert_weights_norm"] = experts.normalized
        pairs["expert_weights_scale"] = experts.scale
    if experts.groups > 1:
        pairs["expert_group_count"] = experts.groups
        pairs["expert_group_used_count"] = experts.groups_used
    if config.layers[0].experts is None:
        pairs["leading_dense_block_count"] = [layer.experts for layer in config.layers].index(
            experts
        )
    return pairs


def _global_rope(config: ModelConfig) -> RopeConfig | None:
    """Return the RoPE of the global-attention layers, else of all; local ones differ by
    convention.
    """
    found = [layer for layer in config.layers if layer.rope is not None]
    everything = [layer for layer in found if layer.window is None]
    return (everything or found)[0].rope if found else None


def _is_linear(rope: RopeConfig) -> bool:
    return len(set(rope.factors)) == 1


def _name(folder: Path) -> str:
    settings = read_json_object(folder / "config.json") or {}
    name = settings.get("_name_or_path")
    return name.rsplit("/", 1)[-1] if isinstance(name, str) and name else folder.name
