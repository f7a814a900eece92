"""The settings of EAGLE-3 heads as they are published: a layer that was trained for a model.

Source: SafeAILab's code and the loaders of vLLM and SGLang, which read the same files; the format
of `speculators` names some settings otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from ..config.config_fields import ConfigFields
from ..config.model_config import KVHeads, LayerConfig, ModelConfig
from ..errors import ModelError, UnsupportedModel
from ..families.hf_config import config_from_hf
from ..json_object import read_json_object
from ..safetensors.folder_files import CONFIG, is_eagle_head

_MOST_LAYERS = 16
_PADDING = 128
"""Makers round vocabularies up, so sizes may differ by tokens that never occur."""


@dataclass(frozen=True, kw_only=True)
class EagleSettings:
    """What `config.json` says of a head.

    `streams` are the layers whose residual streams it reads: that many layers are behind them;
    none where it is left to the model's depth.
    """

    path: Path
    config: ModelConfig
    target_size: int
    drafted: int
    streams: tuple[int, ...] = ()
    norm_before_residual: bool = False
    verifier: str = ""
    """The name of the model, where the settings have it."""

    @property
    def kv_heads(self) -> KVHeads:
        """The key heads of its layer."""
        return self.config.kv_heads_of(0)

    def check_fits(self, target: ModelConfig) -> None:
        """Raise `UnsupportedModel` unless it was trained for a model of this shape."""
        size, vocabulary = self.target_size, self.config.vocab_size
        same_words = abs(vocabulary - target.vocab_size) <= _PADDING
        if size != target.hidden_size or not same_words or target.streams is not None:
            raise UnsupportedModel(
                f"{self.path.name} drafts for models with {size} hidden elements and a "
                f"vocabulary of {vocabulary}, not for one with {target.hidden_size} and "
                f"{target.vocab_size}.",
                hint="Choose the head that was trained for this model.",
            )
        streams = list(self.streams_of(target))
        if (
            sorted(set(streams)) != streams
            or not 0 < streams[0] <= streams[-1] <= target.num_layers
        ):
            raise UnsupportedModel(
                f"{self.path.name} reads layers that the model does not have.",
                hint="Choose the head that was trained for this model.",
            )

    def streams_of(self, target: ModelConfig) -> Sequence[int]:
        """How many layers are behind each residual stream that it reads."""
        count = target.num_layers
        return self.streams or (2, count // 2, count - 3)


def is_eagle_folder(path: Path) -> bool:
    """Whether a folder holds an EAGLE-3 head."""
    try:
        settings = read_json_object(path / CONFIG) if path.is_dir() else None
    except ModelError:
        return False
    return settings is not None and is_eagle_head(settings)


def read_eagle_settings(path: Path) -> EagleSettings:
    """The settings of the head in a folder; raises `ModelError` for those of no head."""
    found = read_json_object(path / CONFIG) or {}
    if not is_eagle_head(found):
        raise UnsupportedModel(f"{path} holds no EAGLE-3 head.")
    layer, eagle = (_group(found, name) for name in ("transformer_layer_config", "eagle_config"))
    fields = ConfigFields({**found, **layer, **eagle}, CONFIG)
    config = config_from_hf({**found, **layer, "tie_word_embeddings": False})
    if config.num_layers != 1:
        fields.refuse(f"has a head of {config.num_layers} layers", "Choose one of one layer.")
    key = "eagle_aux_hidden_state_layer_ids"
    streams = fields.integers(key, 0, 1 << 10) if key in fields else ()
    if streams and streams[0] == 1:  # some count outputs of layers, most of them inputs
        streams = [stream + 1 for stream in streams]
    if len(streams) > _MOST_LAYERS or sorted(set(streams)) != list(streams):
        fields.fail(f"has {key} that do not ascend")
    return EagleSettings(
        path=path,
        config=config,
        target_size=fields.integer("target_hidden_size", 1, 1 << 17, config.hidden_size),
        drafted=fields.integer("draft_vocab_size", 1, config.vocab_size, config.vocab_size),
        streams=tuple(streams),
        norm_before_residual=fields.flag("norm_before_residual", bool(layer)),
        verifier=_verifier(found),
    )


def _group(settings: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The settings under a name; none where something else is."""
    inner = settings.get(name)
    return cast("dict[str, object]", inner) if isinstance(inner, dict) else {}


def _verifier(settings: Mapping[str, object]) -> str:
    name = _group(_group(settings, "speculators_config"), "verifier").get("name_or_path")
    return name if isinstance(name, str) else ""


def with_eagle_layer(config: ModelConfig, settings: EagleSettings) -> ModelConfig:
    """A model's configuration with a layer that has the keys and values of a head."""
    return replace(config, layers=(*config.layers, LayerConfig(kv_heads=settings.kv_heads)))
