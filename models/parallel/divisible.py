"""Which models can be divided among several devices, and how much of them each has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..config.model_config import Activation, ModelConfig
from ..errors import UnsupportedModel
from ..families.family import QueryKeyNorm
from ..families.family_registry import find_family
from .model_shard import PLAIN_BLOCKS, ColumnBlocks, ModelShard, indivisible


@dataclass(frozen=True)
class _Place:
    count: int
    rank: int = 0


class DevicePart(NamedTuple):
    """What one of several devices has: a model of this shape, and this share of the weights."""

    config: ModelConfig
    share: float


def device_parts(
    config: ModelConfig, parameters: int, count: int, blocks: ColumnBlocks = PLAIN_BLOCKS
) -> list[DevicePart]:
    """The parts of a model with so many weights, that of the first device first.

    What is not divided each device has whole. Raises `UnsupportedModel` as `ModelShard` does.
    """
    divided = _divided_weights(config)
    total = max(parameters, divided, 1)
    found: list[DevicePart] = []
    for rank in range(count):
        shard = ModelShard(config, _Place(count, rank), blocks)
        own = _divided_weights(shard.config, lambda experts, s=shard: len(s.experts(experts)))
        found.append(DevicePart(shard.config, (own + total - divided) / total))
    return found


def _divided_weights(
    config: ModelConfig, own_experts: Callable[[int], int] = lambda experts: experts
) -> int:
    """The elements of the matrices that ranks divide, in a model of this shape."""
    tables = 1 if config.tied_embeddings else 2
    found = tables * config.vocab_size * config.hidden_size
    return found + sum(
        layer_weights(config, index, own_experts) for index in range(config.num_layers)
    )


def layer_weights(
    config: ModelConfig, index: int, own_experts: Callable[[int], int] = lambda experts: experts
) -> int:
    """The elements of a layer's matrices, but for recurrent ones and routers."""
    return _of_attention(config, index) + _of_mlps(config, index, own_experts)


def _of_attention(config: ModelConfig, index: int) -> int:
    layer, heads = config.layers[index], config.kv_heads_of(index)
    if not layer.has_attention:
        return 0
    if (latent := config.latent) is not None:
        each, hidden = config.num_heads * (latent.key_size + latent.rope_size), config.hidden_size
        queries = latent.query_rank * (hidden + each) or hidden * each
        kept = config.num_heads * latent.value_size
        heads_of_all = config.num_heads * (latent.key_size + latent.value_size)
        return queries + hidden * (config.head_size + kept) + latent.rank * heads_of_all
    inputs, queries = layer.inputs or config.hidden_size, config.num_heads * heads.size
    keys = 2 * heads.count * heads.size if layer.has_keys else 0
    gates = queries if config.gated_attention else 0
    return inputs * (queries + gates + keys) + config.hidden_size * queries


def _of_mlps(config: ModelConfig, index: int, own_experts: Callable[[int], int]) -> int:
    layer = config.layers[index]
    matrices = 2 if config.activation is Activation.RELU_SQUARED else 3
    hidden, experts, found = config.hidden_size, layer.experts, 0
    if layer.has_mlp and (experts is None or layer.parallel_experts):
        found = hidden * config.mlp_width_of(index)
    if experts is not None:
        found += own_experts(experts.count) * experts.width * (experts.latent or hidden)
        found += hidden * experts.shared_width
    return matrices * found


def check_divisible(config: ModelConfig, count: int) -> None:
    """Raise `UnsupportedModel` for a model with parts that no rank can compute by itself."""
    if find_family(config.architecture).query_key_norm is QueryKeyNorm.ALL_HEADS:
        raise _undivided("normalises all heads of a token together")
    if config.latent is not None:
        raise _undivided("keeps one latent for all heads of a token")
    if config.streams is not None or any(layer.sparsity is not None for layer in config.layers):
        raise _undivided("opens gates by the mean of all of them")
    fewest = min((each.experts.count for each in config.layers if each.experts), default=count)
    if fewest < count:
        raise indivisible(count, f"{fewest} experts")
    ModelShard(config, _Place(count))


def _undivided(what: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"The model cannot be divided among GPUs, since it {what}.",
        hint="Load it with tensor_parallel 1, or let llama.cpp run it.",
    )
