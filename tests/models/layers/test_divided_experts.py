"""Experts overflow for tokens that did not pick them: no rank may let that into its sum."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._C._distributed_c10d import HashStore

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.matmul.expert_layers import (
    ExpertLayers,
    experts_by_copy,
    experts_by_group,
    experts_by_mask,
)
from ingle.kernels.operations import Operations, dense
from ingle.models.config.model_config import ExpertConfig, LayerConfig, ModelConfig
from ingle.models.layers.expert_mlp import ExpertMLP
from ingle.models.layers.parameters import Parameters, RankPart
from ingle.models.parallel.model_shard import ModelShard
from ingle.models.parallel.rank_group import RankGroup
from ingle.models.parallel.sharded_weights import ShardedWeights

CPU = torch.device("cpu")
EXPERTS, HIDDEN, WIDTH = 4, 8, 6
MIXTURE = ExpertConfig(count=EXPERTS, used=2, width=WIDTH)
CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=16,
    hidden_size=HIDDEN,
    intermediate_size=WIDTH,
    num_heads=4,
    num_kv_heads=4,
    head_size=2,
    context=16,
    norm_epsilon=1e-5,
    layers=(LayerConfig(experts=MIXTURE),),
    attention_scale=1.0,
)
PICKS = ((2, 3), (0, 1), (1, 2), (0, 3))
Way = Callable[[torch.Tensor, ExpertLayers, torch.Tensor, torch.Tensor], torch.Tensor]


class HalfOperations(Operations):
    """Operations in fp16 whose experts are computed in one `way`."""

    def __init__(self, way: Way) -> None:
        super().__init__(torch.float16)
        self._way = way

    def experts(
        self, x: Activations, layers: ExpertLayers, picked: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        return self._way(dense(x), layers, picked, weights)


class Tensors:
    """Of experts, each of which exceeds fp16 by the element of its number, and of their router.

    The router takes the two experts whose elements are 0.
    """

    def __init__(self) -> None:
        random = torch.Generator().manual_seed(4)
        gates, ups = (torch.randn(EXPERTS, WIDTH, HIDDEN, generator=random) for _ in range(2))
        for weight in (gates, ups):
            weight[:, :, :EXPERTS] = 0
            for expert in range(EXPERTS):
                weight[expert, :, expert] = 300
        self._tensors = {
            "blk.0.ffn_gate_inp.weight": -10 * torch.eye(EXPERTS, HIDDEN),
            "blk.0.ffn_gate_exps.weight": gates.flatten(0, 1),
            "blk.0.ffn_up_exps.weight": ups.flatten(0, 1),
            "blk.0.ffn_down_exps.weight": torch.randn(EXPERTS * HIDDEN, WIDTH, generator=random),
        }
        self.names = list(self._tensors)

    def get(self, name: str) -> torch.Tensor:
        return self._tensors[name]


def tokens() -> torch.Tensor:
    """Return a row (tokens, hidden) for each of `PICKS`."""
    rows = torch.randn(len(PICKS), HIDDEN, generator=torch.Generator().manual_seed(2))
    rows[:, :EXPERTS] = 1
    for row, picked in zip(rows, PICKS, strict=True):
        row[list(picked)] = 0
    return rows.half()


@pytest.mark.parametrize("way", [experts_by_group, experts_by_copy, experts_by_mask])
def test_experts_that_overflow_for_tokens_of_others_add_nothing(way: Way) -> None:
    store, x = HashStore(), Activations(HIDDEN, tokens())

    def compute(rank: int, count: int, way: Way) -> torch.Tensor:
        ranks, weights, operations = RankGroup(rank, count), Tensors(), HalfOperations(way)
        if count == 1:
            parameters = Parameters(weights, device=CPU, operations=operations)
            return ExpertMLP(0, CONFIG, MIXTURE, parameters)(x)
        shard = ModelShard(CONFIG, ranks)
        ranks.connect(store, CPU)
        parameters = Parameters(
            ShardedWeights(weights, shard),
            device=CPU,
            operations=operations,
            part=RankPart(shard, ranks),
        )
        return ExpertMLP(0, shard.config, MIXTURE, parameters)(x)

    expected = compute(0, 1, experts_by_group)
    assert bool(expected.isfinite().all())
    assert torch.equal(compute(0, 1, way), expected)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(compute, (0, 1), (2, 2), (way, way)):
            assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)
