"""The tensors and settings of heads that draft, in the form of one more layer of their model.

Source: vLLM's and llama.cpp's loaders for the names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ingle.kernels.formats.weight import Weight

from ..config.model_config import ModelConfig
from ..families.family_registry import find_family
from ..weights.weights import Weights

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


@dataclass(frozen=True)
class HeadFiles:
    """The settings of a head as the last layer of its model, and its tensors by canonical names."""

    config: ModelConfig
    weights: Weights
    title: str
    """What kind of head it is."""

    def holding(self, weights: Weights) -> HeadFiles:
        """The same head with its tensors in another form."""
        return replace(self, weights=weights)


class RenamedWeights:
    """Some tensors of `source`, each under another name."""

    def __init__(self, source: Weights, names: Mapping[str, str]) -> None:
        """`names` are those in the source, by the new ones."""
        self._source = source
        self._names = names

    @property
    def names(self) -> Iterable[str]:
        """Every tensor there is."""
        return self._names.keys()

    def get(self, name: str) -> Weight:
        """The tensor; raises what the source raises."""
        return self._source.get(self._names.get(name, name))


def find_mtp_head(
    raw: Weights, config: ModelConfig, canonical: Callable[[Weights, ModelConfig], Weights]
) -> HeadFiles | None:
    """The head among the tensors of a model as they are stored; None if there is none.

    Of several layers for prediction the first drafts all tokens. `canonical` names and splits
    tensors as those of the model are.
    """
    found = mtp_tensors(raw.names, config)
    if found is None:
        return None
    whole = with_mtp_layer(config)
    return HeadFiles(whole, canonical(RenamedWeights(raw, found), whole), "MTP head")


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
    if not find_family(config.architecture).has_mtp_head:
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
