"""Which part of a model a rank has: columns of the first matrices, rows of those behind them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import gcd, lcm
from typing import NamedTuple, Protocol

from ..config.model_config import KVHeads, LayerConfig, ModelConfig
from ..errors import UnsupportedModel
from .share import share

_OF_A_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_TILE = 64
"""Rows are divided in multiples of it where they can be: kernels compute tiles of rows."""
_ADDED = frozenset({"attn_output", "ffn_down", "ffn_down_shexp", "ffn_latent_up"})
"""Layers whose outputs are sums over ranks: only one of them adds the bias."""


class RankPlace(Protocol):
    """The number of a rank among `count`."""

    @property
    def rank(self) -> int:
        """0 for the first."""
        ...

    @property
    def count(self) -> int:
        """How many there are."""
        ...


class ColumnBlocks(NamedTuple):
    """Columns that have a scale together, in matrices behind attention and in those behind MLPs."""

    heads: int = 1
    units: int = 1

    def joined(self, other: ColumnBlocks) -> ColumnBlocks:
        """The larger of both."""
        return ColumnBlocks(max(self.heads, other.heads), max(self.units, other.units))


def column_blocks(names: Iterable[str], block: Callable[[str], int]) -> ColumnBlocks:
    """The largest blocks of the matrices whose columns ranks divide."""
    heads, units = [1], [1]
    for name in names:
        if name.endswith("attn_output.weight"):
            heads.append(block(name))
        elif name.endswith(("ffn_down.weight", "ffn_down_shexp.weight")):
            units.append(block(name))
    return ColumnBlocks(max(heads), max(units))


class TensorCut(NamedTuple):
    """Elements of a tensor along an axis, on which the whole one has `total`."""

    axis: int
    part: range
    total: int


PLAIN_BLOCKS = ColumnBlocks()
"""Of matrices that are cut between any two columns."""
NF4_BLOCKS = ColumnBlocks(64, 64)
"""Of matrices that are put into NF4 when they are loaded."""


class ModelShard:
    """The part of a model that one rank has; `config` is that of a model of this size.

    Heads of queries, keys and values, units of MLPs and the vocabulary are divided, and experts go
    to ranks whole. What is small or recurrent has each rank whole. Where there are fewer key heads
    than ranks, several ranks have the same one.
    """

    def __init__(
        self, whole: ModelConfig, place: RankPlace, blocks: ColumnBlocks = PLAIN_BLOCKS
    ) -> None:
        """Columns are cut at multiples of `blocks`.

        Raises `UnsupportedModel` for a model that cannot be divided by so many ranks.
        """
        self.whole = whole
        self._rank, self._count, self._blocks = place.rank, place.count, blocks
        self._heads = self._head_split()
        self.config = replace(
            whole,
            vocab_size=len(self._vocabulary),
            num_heads=len(self._heads),
            intermediate_size=-(-whole.intermediate_size // place.count),
            layers=tuple(self._layer(index) for index in range(whole.num_layers)),
        )

    def experts(self, count: int) -> range:
        """The rank's experts of a layer with so many."""
        return share(count, self._rank, self._count)

    @property
    def first_token(self) -> int:
        """The first token of the vocabulary whose row the rank has."""
        return self._vocabulary.start

    def has(self, name: str) -> bool:
        """Whether the rank adds the tensor: a bias of outputs that are summed belongs to one."""
        match = _OF_A_LAYER.fullmatch(name)
        return not (match and self._rank and match[3] == "bias" and match[2] in _ADDED)

    def cut(self, name: str) -> TensorCut | None:
        """The part of a tensor that the rank has; None if it has it whole.

        Outputs of a matrix of which it has a part of the columns are to be summed over all ranks.
        """
        if name in ("token_embd.weight", "output.weight", "output.bias"):
            return TensorCut(0, self._vocabulary, self.whole.vocab_size)
        match = _OF_A_LAYER.fullmatch(name)
        if match is None:
            return None
        layer, part, is_bias = int(match[1]), match[2], match[3] == "bias"
        found = self._cut_of_layer(layer, part)
        return None if is_bias and found is not None and found.axis == 1 else found

    def _cut_of_layer(self, layer: int, part: str) -> TensorCut | None:
        kinds, whole = self.whole.layers[layer], self.whole
        if part.endswith("_exps") and kinds.experts is not None:
            count = kinds.experts.count
            return TensorCut(0, self.experts(count), count)
        if part.endswith("_shexp") and part.startswith(("ffn_gate_sh", "ffn_up", "ffn_down")):
            width = 0 if kinds.experts is None else kinds.experts.shared_width
            return self._of_mlp(part, width)
        if part in ("ffn_gate", "ffn_up", "ffn_down"):
            return self._of_mlp(part, whole.mlp_width_of(layer))
        if not part.startswith("attn_") or not kinds.has_attention:
            return None
        heads = whole.kv_heads_of(layer)
        if part in ("attn_k", "attn_v"):
            return _times(TensorCut(0, self._key_heads(heads), heads.count), heads.size)
        queries = TensorCut(0, self._heads, whole.num_heads)
        if part == "attn_q":
            return _times(queries, heads.size * (2 if whole.gated_attention else 1))
        if part == "attn_sinks":
            return queries
        if part == "attn_output":
            return _times(queries._replace(axis=1), heads.size)
        return None

    @property
    def _vocabulary(self) -> range:
        return share(self.whole.vocab_size, self._rank, self._count)

    def _of_mlp(self, part: str, width: int) -> TensorCut:
        return TensorCut(int("down" in part), self._units(width), width)

    def _units(self, width: int) -> range:
        """The rank's units of an MLP."""
        block = self._blocks.units
        tile = lcm(block, gcd(width, _TILE))
        unit = tile if width // tile >= self._count else block
        if width % unit or width // unit < self._count:
            raise indivisible(self._count, f"{width} units of its MLP, {block} at a time")
        return share(width, self._rank, self._count, unit)

    def _head_split(self) -> range:
        """The rank's heads of queries, which are those of whole key heads, or of a part of one."""
        layers = [i for i, kinds in enumerate(self.whole.layers) if kinds.has_attention]
        shapes = {self.whole.kv_heads_of(layer) for layer in layers}
        total, block = self.whole.num_heads, self._blocks.heads
        if not shapes:
            return range(total)
        unit = lcm(*(block // gcd(block, shape.size) for shape in shapes))
        groups = {total // shape.count for shape in shapes}
        for step in (lcm(unit, *groups), unit):
            if total % step or total // step < self._count:
                continue
            parts = [share(total, rank, self._count, step) for rank in range(self._count)]
            if all(_is_whole(part, group) for part in parts for group in groups):
                return parts[self._rank]
        raise indivisible(
            self._count,
            f"{total} heads, which share {max(shape.count for shape in shapes)} key heads",
        )

    def _key_heads(self, heads: KVHeads) -> range:
        group = self.whole.num_heads // heads.count
        return range(self._heads.start // group, (self._heads.stop - 1) // group + 1)

    def _layer(self, index: int) -> LayerConfig:
        kinds = self.whole.layers[index]
        if kinds.has_attention:
            heads = self.whole.kv_heads_of(index)
            own = KVHeads(count=len(self._key_heads(heads)), size=heads.size)
            kinds = replace(kinds, kv_heads=own)
        if kinds.has_mlp and (kinds.experts is None or kinds.parallel_experts):
            kinds = replace(kinds, mlp_width=len(self._units(self.whole.mlp_width_of(index))))
        if kinds.experts is not None and kinds.experts.shared_width:
            width = len(self._units(kinds.experts.shared_width))
            kinds = replace(kinds, experts=replace(kinds.experts, shared_width=width))
        return kinds


def _times(cut: TensorCut, size: int) -> TensorCut:
    """The same cut of heads with so many elements."""
    return TensorCut(cut.axis, range(cut.part.start * size, cut.part.stop * size), cut.total * size)


def _is_whole(part: range, group: int) -> bool:
    """Whether heads are all of those that share some key heads, or share a single one."""
    if part.start // group == (part.stop - 1) // group:
        return True
    return part.start % group == 0 and part.stop % group == 0


def indivisible(count: int, what: str) -> UnsupportedModel:
    """The error for a model that has `what` and therefore no parts for so many ranks."""
    return UnsupportedModel(
        f"The model cannot be divided among {count} GPUs: it has {what}.",
        hint="Load it with a smaller tensor_parallel.",
    )
