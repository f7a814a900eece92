"""The tensors of a model, each cut to the part of one rank."""

from __future__ import annotations

from dataclasses import replace

import torch

from ingle.kernels.formats.weight import FP8_BLOCK, FP8Tensor, QuantizedTensor, Weight
from ingle.kernels.formats.weight_format import WEIGHT_FORMATS

from ..errors import UnsupportedModel
from ..weights.tensor_part import rows_of, without_fp8
from ..weights.weights import Weights
from .model_shard import ColumnBlocks, ModelShard, column_blocks


class ShardedWeights:
    """The rank's parts of the tensors of `source`: of a mapped file nothing else is read."""

    def __init__(self, source: Weights, shard: ModelShard) -> None:
        self._source = source
        self._shard = shard
        self.names = [name for name in source.names if shard.has(name)]
        """Every tensor of which the rank has a part."""

    def get(self, name: str) -> Weight:
        """The part; raises what the source raises, and `UnsupportedModel` for one not to be cut.

        A tensor of another size than the shard expects stays whole, so that it is reported.
        """
        weight, cut = self._source.get(name), self._shard.cut(name)
        if cut is None:
            return weight
        size = weight.shape[cut.axis] if len(weight.shape) > cut.axis else 0
        if not size or size % cut.total:
            return weight
        each = size // cut.total  # experts have as many rows each
        part = slice(cut.part.start * each, cut.part.stop * each)
        return rows_of(weight, part) if cut.axis == 0 else _columns_of(name, weight, part)


def blocks_of(weights: Weights) -> ColumnBlocks:
    """The largest blocks of the matrices whose columns ranks divide."""
    return column_blocks(weights.names, lambda name: _block(weights.get(name)))


def _block(weight: Weight) -> int:
    if isinstance(weight, torch.Tensor):
        return 1
    if isinstance(weight, QuantizedTensor):
        return WEIGHT_FORMATS[weight.type].block_elements
    return FP8_BLOCK if isinstance(weight, FP8Tensor) else weight.block_size


def _columns_of(name: str, weight: Weight, part: slice) -> Weight:
    """Columns of a matrix; raises `UnsupportedModel` within a block, or if they are reordered."""
    if isinstance(weight, torch.Tensor):
        return weight[..., part].contiguous()
    if isinstance(weight, FP8Tensor):
        if weight.scaling != "block":
            return replace(weight, codes=weight.codes[:, part].contiguous())
        if part.start % FP8_BLOCK:
            dense = without_fp8(weight)
            assert isinstance(dense, torch.Tensor)
            return dense[:, part].contiguous()
        scales = weight.scales[:, part.start // FP8_BLOCK : -(-part.stop // FP8_BLOCK)]
        return replace(weight, codes=weight.codes[:, part].contiguous(), scales=scales.contiguous())
    if isinstance(weight, QuantizedTensor):
        form = WEIGHT_FORMATS[weight.type]
        size, width = form.block_elements, form.block_bytes
        if weight.order is not None:
            raise UnsupportedModel(
                f"The columns of {name!r} are stored in an order of their own, in which they cannot"
                " be divided among GPUs.",
                hint="Load the model with tensor_parallel 1, or use an edition without act-order.",
            )
        _check_blocks(name, part, size)
        data = weight.data[:, part.start // size * width : part.stop // size * width]
        return QuantizedTensor(weight.type, data.contiguous(), part.stop - part.start)
    _check_blocks(name, part, weight.block_size)
    plain = weight.unnested()
    return replace(
        plain,
        codes=plain.codes[:, part.start // 2 : part.stop // 2].contiguous(),
        absmax=plain.absmax[
            :, part.start // weight.block_size : part.stop // weight.block_size
        ].contiguous(),
    )


def _check_blocks(name: str, part: slice, size: int) -> None:
    if part.start % size or part.stop % size:
        raise UnsupportedModel(
            f"{name!r} has a scale for each {size} columns, and cannot be cut between them.",
            hint="Load the model with a smaller tensor_parallel.",
        )
