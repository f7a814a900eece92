"""The parts of ranks are the whole tensors again, and end where blocks do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
import torch

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.nf4 import quantize_nf4
from ingle.kernels.formats.weight import FP8Tensor, QuantizedTensor, Weight
from ingle.kernels.formats.weight_format import WEIGHT_FORMATS
from ingle.models.config.model_config import LayerConfig, ModelConfig
from ingle.models.errors import UnsupportedModel
from ingle.models.parallel.divisible import check_divisible
from ingle.models.parallel.model_shard import NF4_BLOCKS, ColumnBlocks, ModelShard
from ingle.models.parallel.rank_group import RankGroup
from ingle.models.parallel.sharded_weights import ShardedWeights, blocks_of

UP, DOWN = "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"
WIDTH = 1280
CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=100,
    hidden_size=256,
    intermediate_size=WIDTH,
    num_heads=28,
    num_kv_heads=4,
    head_size=128,
    context=512,
    norm_epsilon=1e-5,
    layers=(LayerConfig(),),
    attention_scale=1.0,
)


class OneTensor:
    """`Weights` with one tensor."""

    def __init__(self, name: str, weight: Weight) -> None:
        self.names: Iterable[str] = [name]
        self._weight = weight

    def get(self, name: str) -> Weight:
        return self._weight


def blocks(kind: str, rows: int, columns: int) -> QuantizedTensor:
    """Return random bits, whose scales are ordinary numbers."""
    form = WEIGHT_FORMATS[kind]
    width = columns // form.block_elements * form.block_bytes
    data = torch.randint(0, 60, (rows, width), generator=torch.Generator().manual_seed(1))
    return QuantizedTensor(kind, data.to(torch.uint8), columns)


def fp8(rows: int, columns: int) -> FP8Tensor:
    codes = torch.randn(rows, columns).to(torch.float8_e4m3fn)
    return FP8Tensor(codes, torch.rand(rows // 128, columns // 128))


MAKERS: dict[str, Callable[[int, int], Weight]] = {
    **{kind: lambda r, c, k=kind: blocks(k, r, c) for kind in ("Q4_K", "Q6_K", "Q8_0", "G4_128")},
    "NF4": lambda rows, columns: quantize_nf4(torch.randn(rows, columns)),
    "FP8": fp8,
    "dense": torch.randn,
}


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("kind", MAKERS)
def test_parts_are_the_whole_matrix(kind: str, count: int) -> None:
    for name, shape, axis in ((UP, (WIDTH, 256), 0), (DOWN, (256, WIDTH), 1)):
        weight = MAKERS[kind](*shape)
        source = OneTensor(name, weight)
        found: list[torch.Tensor] = []
        for rank in range(count):
            shard = ModelShard(CONFIG, RankGroup(rank, count), ColumnBlocks(1, 256))
            part = ShardedWeights(source, shard).get(name)
            assert part.shape[axis] == shard.config.mlp_width_of(0)
            found.append(part if isinstance(part, torch.Tensor) else dequantize(part))
        whole = weight if isinstance(weight, torch.Tensor) else dequantize(weight)
        assert torch.equal(torch.cat(found, axis), whole)


def test_blocks_are_those_of_the_file() -> None:
    assert blocks_of(OneTensor(DOWN, blocks("Q4_K", 4, 256))) == (1, 256)
    assert blocks_of(OneTensor("blk.0.attn_output.weight", fp8(128, 128))) == (128, 1)
    assert blocks_of(OneTensor(UP, blocks("Q4_K", 4, 256))) == (1, 1)
    assert ColumnBlocks(1, 256).joined(NF4_BLOCKS) == (64, 256)


def test_parts_need_not_be_equal() -> None:
    config = replace(CONFIG, intermediate_size=18944)
    widths = [
        ModelShard(config, RankGroup(rank, 4), ColumnBlocks(1, 256)).config.mlp_width_of(0)
        for rank in range(4)
    ]
    assert widths == [4608, 4864, 4608, 4864]


def test_columns_are_not_cut_within_a_block_nor_reordered() -> None:
    shard = ModelShard(CONFIG, RankGroup(1, 4))
    for weight, message in (
        (blocks("Q4_K", 4, WIDTH), "a scale for each 256 columns"),
        (replace(blocks("G4_32", 4, WIDTH), order=torch.arange(WIDTH)), "an order of their own"),
    ):
        with pytest.raises(UnsupportedModel, match=message):
            ShardedWeights(OneTensor(DOWN, weight), shard).get(DOWN)


@pytest.mark.parametrize(
    ("changes", "count", "message"),
    [
        ({}, 5, "28 heads, which share 4 key heads"),
        ({"intermediate_size": 3}, 4, "3 units of its MLP"),
        ({"architecture": "olmo2"}, 2, "normalises all heads of a token together"),
    ],
)
def test_models_without_such_parts_are_refused(
    changes: dict[str, int], count: int, message: str
) -> None:
    with pytest.raises(UnsupportedModel, match=message):
        check_divisible(replace(CONFIG, **changes), count)
