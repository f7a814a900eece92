"""The tensors of an EAGLE-3 head, in the form of one more layer of its model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ..config.model_config import ModelConfig
from ..errors import InvalidModel
from ..weights.hf_tensor_names import HFTensorNames
from ..weights.safetensors_weights import SafetensorsWeights
from .eagle_settings import EagleSettings, read_eagle_settings
from .head_files import HeadFiles, RenamedWeights

_LAYER = re.compile(r"(?:model\.)?(?:midlayer|layers\.0)\.(.+)")
_MAPS = ("d2t", "t2d")


@dataclass(frozen=True)
class EagleFiles(HeadFiles):
    """The files of a head, as one more layer of its model, and the tokens that it drafts."""

    settings: EagleSettings
    streams: Sequence[int]
    token_ids: torch.Tensor
    """The model's token of each row of the head's logits, (drafted,) int64."""


def open_eagle_head(path: Path, target: ModelConfig) -> EagleFiles:
    """The head in a folder, for a model; raises `ModelError` where they do not match."""
    settings = read_eagle_settings(path)
    settings.check_fits(target)
    stored = SafetensorsWeights(path)
    names: dict[str, str] = {}
    for name in stored.names:
        match = _LAYER.fullmatch(name)
        if match is not None:
            names[f"model.layers.{target.num_layers}.{match[1]}"] = name
        elif name.rpartition(".")[2] not in _MAPS:
            names[name] = name
    config = settings.config
    layer = replace(config.layers[0], inputs=2 * config.hidden_size)
    whole = replace(config, layers=(*target.layers, layer))
    weights = HFTensorNames(RenamedWeights(stored, names), whole)
    tokens = torch.arange(settings.drafted)
    if "d2t" in stored.names:
        tokens = _tokens(path, stored.get_raw("d2t"), tokens)
    in_range = bool(((tokens >= 0) & (tokens < target.vocab_size)).all())
    if not in_range:
        raise InvalidModel(
            f"{path} drafts tokens that its model does not have.", hint="Download it again."
        )
    title = f"EAGLE-3 head {path.name}"
    return EagleFiles(whole, weights, title, settings, settings.streams_of(target), tokens)


def _tokens(path: Path, offsets: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The tokens that rows stand for, by what is to be added to each."""
    if offsets.shape != places.shape or offsets.is_floating_point():
        raise InvalidModel(
            f"{path} has a vocabulary of {tuple(offsets.shape)} {offsets.dtype} where its settings "
            f"ask for {len(places)} numbers.",
            hint="Download it again.",
        )
    return places + offsets.long()
