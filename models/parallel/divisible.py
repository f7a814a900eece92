"""Which models can be divided among several devices."""

from __future__ import annotations

from dataclasses import dataclass

from ..config.model_config import ModelConfig
from ..errors import UnsupportedModel
from ..families.family import QueryKeyNorm
from ..families.family_registry import find_family
from .model_shard import ModelShard, indivisible


@dataclass(frozen=True)
class _First:
    count: int
    rank: int = 0


def first_part(config: ModelConfig, count: int) -> ModelConfig:
    """The shape of the first of `count` parts; raises `UnsupportedModel` if there are none."""
    return ModelShard(config, _First(count)).config


def check_divisible(config: ModelConfig, count: int) -> None:
    """Raise `UnsupportedModel` for a model with parts that no rank can compute by itself."""
    if find_family(config.architecture).query_key_norm is QueryKeyNorm.ALL_HEADS:
        raise _undivided("normalises all heads of a token together")
    if config.streams is not None or any(layer.sparsity is not None for layer in config.layers):
        raise _undivided("opens gates by the mean of all of them")
    fewest = min((each.experts.count for each in config.layers if each.experts), default=count)
    if fewest < count:
        raise indivisible(count, f"{fewest} experts")
    first_part(config, count)


def _undivided(what: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"The model cannot be divided among GPUs, since it {what}.",
        hint="Load it with tensor_parallel 1, or let llama.cpp run it.",
    )
