"""The settings of Medusa heads as they are published: MLPs that were trained beside a model.

Source: "Medusa", arXiv 2401.10774, and the files that its code and text-generation-inference write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..config.config_fields import ConfigFields
from ..config.model_config import ModelConfig
from ..errors import InvalidModel, ModelError, UnsupportedModel
from ..json_object import read_json_object
from ..safetensors.folder_files import CONFIG, MEDUSA_WEIGHTS, is_medusa_head
from ..safetensors.safetensors_header import StoredTensor, read_safetensors_header

_MOST_HEADS, _MOST_LAYERS, _PADDING = 16, 8, 128
"""Makers round vocabularies up, so sizes may differ by tokens that never occur."""
_NAME = re.compile(r"(?:medusa_heads?\.)?(\d{1,2}\.\d{1,2}\.(?:linear\.)?(?:weight|bias))")


@dataclass(frozen=True, kw_only=True)
class MedusaSettings:
    """So many `heads` with so many residual `layers` each, and their tensors as they are stored."""

    path: Path
    heads: int
    layers: int
    verifier: str
    """The name of the model, where the settings have it."""
    tensors: Mapping[str, StoredTensor]

    @property
    def names(self) -> Mapping[str, str]:
        """The stored names of tensors by those without a prefix; others are left out."""
        matches = ((name, _NAME.fullmatch(name)) for name in self.tensors)
        return {match[1]: name for name, match in matches if match is not None}

    @property
    def rows(self) -> int:
        """The tokens of the vocabulary that each head knows."""
        return self.tensors[self.names[f"0.{self.layers}.weight"]].shape[0]

    def check_fits(self, target: ModelConfig) -> None:
        """Raise `UnsupportedModel` unless they were trained for a model of this shape."""
        size = self.tensors[self.names[f"0.{self.layers}.weight"]].shape[1]
        same_words = abs(self.rows - target.vocab_size) <= _PADDING
        if size != target.hidden_size or not same_words or target.streams is not None:
            raise UnsupportedModel(
                f"{self.path.name} drafts for models with {size} hidden elements and a "
                f"vocabulary of {self.rows}, not for one with {target.hidden_size} and "
                f"{target.vocab_size}.",
                hint="Choose the heads that were trained for this model.",
            )


def is_medusa_folder(path: Path) -> bool:
    """Whether a folder holds Medusa heads."""
    try:
        settings = read_json_object(path / CONFIG) if path.is_dir() else None
    except ModelError:
        return False
    return settings is not None and is_medusa_head(settings)


def read_medusa_settings(path: Path) -> MedusaSettings:
    """The settings of the heads in a folder; raises `ModelError` for those of none."""
    found = read_json_object(path / CONFIG) or {}
    if not is_medusa_head(found):
        raise UnsupportedModel(f"{path} holds no Medusa heads.")
    weights = path / MEDUSA_WEIGHTS
    if not weights.is_file():
        raise UnsupportedModel(
            f"{path} has no {MEDUSA_WEIGHTS}, the only form of Medusa heads that is read.",
            hint="Choose an edition in safetensors.",
        )
    fields = ConfigFields(found, CONFIG)
    settings = MedusaSettings(
        path=path,
        heads=fields.integer("medusa_num_heads", 1, _MOST_HEADS),
        layers=fields.integer("medusa_num_layers", 1, _MOST_LAYERS, 1),
        verifier=fields.text("base_model_name_or_path", ""),
        tensors={tensor.name: tensor for tensor in read_safetensors_header(weights)},
    )
    last = settings.names.get(f"{settings.heads - 1}.{settings.layers}.weight")
    first = settings.names.get(f"0.{settings.layers}.weight")
    if last is None or first is None or len(settings.tensors[first].shape) != 2:
        raise InvalidModel(f"{weights} lacks outputs of its heads.", hint="Download it again.")
    return settings
