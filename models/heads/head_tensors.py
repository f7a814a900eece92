"""The names of tensors behind a model's last layer, and the layer that they make.

Source: vLLM's and llama.cpp's loaders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..config.model_config import ModelConfig
from ..families.family_registry import find_family

_BESIDE_THE_LAYER: Mapping[str, str] = {
    "mtp.fc": "eh_proj",
    "mtp.pre_fc_norm_embedding": "enorm",
    "mtp.pre_fc_norm_hidden": "hnorm",
    "mtp.norm": "shared_head_norm",
    "eh_proj": "eh_proj",
    "enorm": "enorm",
    "hnorm": "hnorm",
    "shared_head.norm": "shared_head_norm",
}
_BEHIND = re.compile(
    r"(?:model\.)?mtp\.|(?:(?:model\.(?:language_model\.)?)?layers|blk)\.(\d{1,9})\."
)
_SHARED = ("embed_tokens.weight", "shared_head.head.weight", "shared_head_head.weight")
"""Copies of the model's own embedding and output layer."""


def with_mtp_layer(config: ModelConfig) -> ModelConfig:
    """The configuration with the layer of its head, which is as the last one with attention."""
    like = next(layer for layer in reversed(config.layers) if layer.has_attention)
    return replace(config, layers=(*config.layers, like))


def tensors_behind(names: Iterable[str], config: ModelConfig) -> frozenset[str]:
    """The tensors of layers behind the model's last one, which predict later tokens."""
    if not find_family(config.architecture).has_draft_layers:
        return frozenset()
    count = config.num_layers
    layers = ((name, _BEHIND.match(name)) for name in names)
    return frozenset(
        name for name, match in layers if match and (not match[1] or int(match[1]) >= count)
    )


def mtp_tensors(names: Iterable[str], config: ModelConfig) -> Mapping[str, str] | None:
    """The tensors of a model's head by the names of a further layer; None if it has no head."""
    attends = any(layer.has_attention for layer in config.layers)  # as the head's layer does
    if not attends or not find_family(config.architecture).has_mtp_head:
        return None
    layer = config.num_layers
    kept = re.compile(
        rf"(?:model\.)?mtp\.layers\.0\.(?P<qwen>.+)"
        rf"|(?:model\.)?(?P<beside>mtp\.\w+)\.weight"
        rf"|(?:model\.(?:language_model\.)?)?layers\.{layer}\.(?P<glm>.+)"
        rf"|(?P<gguf>blk\.{layer}\..+)"
    )
    found: dict[str, str] = {}
    for name in names:
        match = kept.fullmatch(name)
        if match is None or name.endswith(_SHARED):
            continue
        part = match["qwen"] or match["glm"] or ""
        beside = _BESIDE_THE_LAYER.get(match["beside"] or part.removesuffix(".weight"))
        if beside is not None:
            part = f"nextn.{beside}.weight"
        if match["gguf"] or part:
            found[match["gguf"] or f"model.layers.{layer}.{part}"] = name
    return found if any(".nextn.eh_proj." in name for name in found) else None
