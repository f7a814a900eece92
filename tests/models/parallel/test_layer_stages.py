"""Layers go to ranks in the proportions of their memory, and stay with the keys that they read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ingle.kernels.recurrent.recurrent_shapes import ShortConvShape
from ingle.models.config.model_config import KVHeads, LayerConfig
from ingle.models.errors import UnsupportedModel
from ingle.models.parallel.layer_stages import (
    LayerStage,
    StageWeights,
    stage_config,
    stage_parts,
    stage_ranges,
    stage_sizes,
)
from ingle.models.parallel.rank_group import RankGroup
from tests.models.parallel.test_sharded_weights import CONFIG

DEEP = replace(CONFIG, layers=(LayerConfig(),) * 24)


def test_the_first_rank_has_the_last_layers() -> None:
    assert stage_ranges((3, 5, 4)) == [range(9, 12), range(5), range(5, 9)]


@given(st.lists(st.floats(0.5, 1), min_size=2, max_size=8))
def test_each_rank_has_layers_for_about_its_share(shares: list[float]) -> None:
    sizes = stage_sizes(DEEP, shares)
    assert sum(sizes) == DEEP.num_layers
    parts = stage_parts(DEEP, 0, sizes)
    assert sum(part.share for part in parts) == pytest.approx(1)
    for part, share in zip(parts, shares, strict=True):
        assert abs(part.share - share / sum(shares)) < 1.1 / DEEP.num_layers


def test_even_the_smallest_gpu_has_a_layer() -> None:
    assert stage_sizes(DEEP, [0.001, 1, 0.001, 0.001]) == (1, 21, 1, 1)


class Tensors(dict[str, torch.Tensor]):
    """`Weights` in memory."""

    @property
    def names(self) -> Iterable[str]:
        return self

    def get(self, name: str) -> torch.Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self[name]


def test_a_stage_has_the_tensors_of_its_layers_alone() -> None:
    names = "token_embd.weight", "blk.0.attn_q.weight", "blk.1.attn_q.weight", "output.weight"
    source = Tensors({name: torch.tensor(place) for place, name in enumerate(names)})
    config = replace(CONFIG, layers=(LayerConfig(),) * 2)
    last, first = (
        StageWeights(source, LayerStage(layers, config, RankGroup(rank, 2)))
        for rank, layers in enumerate(stage_ranges((1, 1)))
    )
    assert list(first.names) == ["token_embd.weight", "blk.0.attn_q.weight"]
    assert list(last.names) == ["blk.0.attn_q.weight", "output.weight"]
    for part, layer in ((first, 0), (last, 1)):
        assert part.get("blk.0.attn_q.weight") is source[f"blk.{layer}.attn_q.weight"]
    del source["blk.1.attn_q.weight"]
    with pytest.raises(KeyError, match=r"blk\.1\.attn_q"):
        last.get("blk.0.attn_q.weight")


def test_layers_stay_with_the_keys_that_they_read() -> None:
    own, sharing = LayerConfig(), LayerConfig(kv_layer=2, kv_heads=KVHeads(count=4, size=128))
    config = replace(CONFIG, layers=(own, own, own, own, sharing, sharing))
    sizes = stage_sizes(config, [1, 1])
    assert sizes == (4, 2)
    assert [each.kv_layer for each in stage_config(config, range(2, 6)).layers] == [
        None,
        None,
        0,
        0,
    ]
    with pytest.raises(UnsupportedModel, match="among 4 GPUs: it has 3 stages of layers"):
        stage_sizes(config, [1] * 4)


def test_each_stage_has_layers_with_states_and_layers_that_attend() -> None:
    attending, recurrent = LayerConfig(), LayerConfig(recurrent=ShortConvShape(128, 3))
    config = replace(CONFIG, layers=(recurrent, recurrent, attending) * 4)
    assert stage_sizes(config, [1, 1]) == (6, 6)
    assert stage_sizes(config, [1, 5]) == (3, 9)
    assert stage_sizes(config, [1] * 4) == (3, 3, 3, 3)
    with pytest.raises(UnsupportedModel, match="among 5 GPUs: it has 4 stages of layers"):
        stage_sizes(config, [1] * 5)
