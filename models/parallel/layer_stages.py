"""A model divided by layers: which of them each rank computes, one rank after the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ingle.kernels.recurrent.recurrent_shapes import (
    DeltaNetShape,
    ShortConvShape,
    StateSpaceShape,
)

from ..config.model_config import LayerConfig, ModelConfig
from ..config.recurrent_config import RecurrentConfig
from ..errors import UnsupportedModel
from .divisible import DevicePart, layer_weights
from .model_shard import indivisible

if TYPE_CHECKING:
    from ..weights.weights import Weight, Weights
    from .rank_group import RankGroup

_OF_A_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_TABLE, _OUTPUT = "token_embd.", "output."


class LayerStage(NamedTuple):
    """The layers of the `whole` model that a rank computes, between those of two of the `ranks`."""

    layers: range
    whole: ModelConfig
    ranks: RankGroup

    @property
    def is_first(self) -> bool:
        """Whether it embeds the tokens."""
        return self.layers.start == 0

    @property
    def is_last(self) -> bool:
        """Whether it computes the logits."""
        return self.layers.stop == self.whole.num_layers

    @property
    def has_table(self) -> bool:
        """Whether it has the embeddings, which may be the output layer, too."""
        return self.is_first or (self.is_last and self.whole.tied_embeddings)

    def name_in_whole(self, name: str) -> str:
        """What the whole model calls a layer or a tensor of the stage."""
        return _moved(name, self.layers.start)


class StageWeights:
    """The tensors of a stage, whose layers are numbered from 0."""

    def __init__(self, source: Weights, stage: LayerStage) -> None:
        self._source = source
        self._stage = stage
        self.names = [found for name in source.names if (found := self._own(name)) is not None]
        """Every tensor of the stage."""

    def get(self, name: str) -> Weight:
        """The tensor; raises what the source raises."""
        return self._source.get(self._stage.name_in_whole(name))

    def _own(self, name: str) -> str | None:
        """What the stage calls a tensor of the whole model; None for another stage's."""
        stage = self._stage
        match = _OF_A_LAYER.fullmatch(name)
        if match is not None:
            is_own = int(match[1]) in stage.layers
        elif name.startswith(_TABLE):
            is_own = stage.has_table
        else:
            is_own = stage.is_last or not name.startswith(_OUTPUT)
        return _moved(name, -stage.layers.start) if is_own else None


def _moved(name: str, layers: int) -> str:
    """The name of the same tensor so many layers further."""
    match = _OF_A_LAYER.fullmatch(name)
    return name if match is None else f"blk.{int(match[1]) + layers}.{match[2]}"


def stage_ranges(sizes: Sequence[int]) -> list[range]:
    """The layers of each rank, which has so many; the first rank has the last of them.

    It draws the tokens.
    """
    ends = list(accumulate((*sizes[1:], sizes[0])))
    found = [range(end - size, end) for end, size in zip(ends, (*sizes[1:], sizes[0]), strict=True)]
    return [found[-1], *found[:-1]]


def stage_config(config: ModelConfig, layers: range) -> ModelConfig:
    """The shape of a model of these layers alone."""
    own = config.layers[layers.start : layers.stop]
    moved = (
        each if each.kv_layer is None else replace(each, kv_layer=each.kv_layer - layers.start)
        for each in own
    )
    return replace(config, layers=tuple(moved))


def stage_sizes(config: ModelConfig, shares: Sequence[float]) -> tuple[int, ...]:
    """How many layers each rank computes, so that its part of the weights is about its share.

    Raises `UnsupportedModel` for a model without so many stages.
    """
    count = len(shares)
    cuts = _cuts(config)
    if len(cuts) < count - 1:
        raise indivisible(count, f"{len(cuts) + 1} stages of layers")
    table = config.vocab_size * config.hidden_size
    below = list(accumulate(_layer_sizes(config), initial=table))
    wanted = accumulate((*shares[1:], shares[0]))
    chosen = [0]
    for place, part in zip(range(count - 1), wanted, strict=False):
        room = len(cuts) - (count - 2 - place)  # cuts left to the stages behind
        target = part / sum(shares) * (below[-1] + table)
        allowed = [cut for cut in cuts[:room] if cut > chosen[-1]]
        chosen.append(min(allowed, key=lambda cut: abs(below[cut] - target)))
    ends = [*chosen[1:], config.num_layers]
    found = [end - start for start, end in zip(chosen, ends, strict=True)]
    return (found[-1], *found[:-1])


def stage_parts(config: ModelConfig, parameters: int, sizes: Sequence[int]) -> list[DevicePart]:
    """The parts of a model with so many weights, that of the first rank first."""
    each, table = _layer_sizes(config), config.vocab_size * config.hidden_size
    known = sum(each) + table * (1 if config.tied_embeddings else 2)
    total = max(parameters, known, 1)
    found: list[DevicePart] = []
    for layers in stage_ranges(sizes):
        own = sum(each[layers.start : layers.stop])
        # Norms and what else no matrix of a layer is.
        own += (total - known) * len(layers) // config.num_layers
        own += table * (layers.start == 0) + table * (layers.stop == config.num_layers)
        found.append(DevicePart(stage_config(config, layers), own / total))
    return found


def _layer_sizes(config: ModelConfig) -> list[int]:
    return [
        layer_weights(config, index) + config.hidden_size * _recurrent_rows(layer.recurrent)
        for index, layer in enumerate(config.layers)
    ]


def _recurrent_rows(layer: RecurrentConfig | None) -> int:
    """What a recurrent layer has for each element of the residual stream, in and out."""
    match layer:
        case None:
            return 0
        case ShortConvShape():
            return 4 * layer.channels
        case DeltaNetShape():
            return layer.channels + 2 * layer.value_width
        case StateSpaceShape():
            return layer.channels + 2 * layer.width


def _cuts(config: ModelConfig) -> list[int]:
    """The layers that may begin a stage: no later one reads the keys of an earlier one.

    Where some layers have states, each stage has such ones, and others that attend: all ranks keep
    pages and states.
    """
    if config.streams is not None or config.layer_input_width:
        raise UnsupportedModel(
            "The model cannot be divided by layers, which have inputs of their own.",
            hint="Load it with an empty tensor_split, or with tensor_parallel 1.",
        )
    found: list[int] = []
    for cut in range(1, config.num_layers):
        before, behind = config.layers[found[-1] if found else 0 : cut], config.layers[cut:]
        is_free = all(each.kv_layer is None or each.kv_layer >= cut for each in behind)
        if is_free and (not config.state_bytes or (_has_both(before) and _has_both(behind))):
            found.append(cut)
    return found


def _has_both(layers: Sequence[LayerConfig]) -> bool:
    attends = any(layer.has_attention for layer in layers)
    return attends and any(layer.recurrent is not None for layer in layers)
