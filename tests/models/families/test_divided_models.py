"""Models divided among ranks compute what one process does; the ranks are threads here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch._C._distributed_c10d import HashStore

from ingle.kernels.operations import Operations
from ingle.models.errors import UnsupportedModel
from ingle.models.layers.parameters import RankPart
from ingle.models.layers.transformer import Transformer
from ingle.models.parallel.divisible import check_divisible
from ingle.models.parallel.model_shard import ModelShard
from ingle.models.parallel.rank_group import RankGroup
from ingle.models.parallel.sharded_weights import ShardedWeights, blocks_of
from tests.harness.full_attention import FullAttention
from tests.models.families.test_transformers_agreement import CASES

CPU = torch.device("cpu")
EXACT = Operations(torch.float32)
UNDIVIDED = {"olmo2", "olmo3", "olmoe", "gemma3n"}
"""Model types whose layers need all heads or all gates of a token at once."""
SIX_HEADS = {"llama2", "phi3, longrope", "glm4_moe"}
"""Cases whose other settings are for as many."""


def divided_logits(config: Any, weights: Any, tokens: torch.Tensor, count: int) -> torch.Tensor:
    """Return the logits of the first of `count` ranks."""
    check_divisible(config, count)
    store = HashStore()
    blocks = blocks_of(weights)

    @torch.inference_mode()
    def compute(rank: int) -> torch.Tensor:
        ranks = RankGroup(rank, count)
        shard = ModelShard(config, ranks, blocks)
        model = Transformer(
            shard.config,
            ShardedWeights(weights, shard),
            device=CPU,
            operations=EXACT,
            part=RankPart(shard, ranks),
        )
        ranks.connect(store, CPU)
        places = torch.arange(len(tokens))
        return model.forward(tokens, places, FullAttention(shard.config), places)

    with ThreadPoolExecutor(count) as pool:
        return next(iter(pool.map(compute, range(count))))


@pytest.mark.parametrize(
    ("case", "count"),
    [
        ("llama3", 2),
        *(pytest.param(case, 2, marks=pytest.mark.slow) for case in CASES if case != "llama3"),
        *(pytest.param(case, 4, marks=pytest.mark.slow) for case in CASES if case not in SIX_HEADS),
    ],
)
def test_ranks_compute_what_one_process_does(
    case: str, count: int, make_random_model: Any, compute_logits: Any, tokens: torch.Tensor
) -> None:
    """Four ranks are more than most of these models have key heads."""
    kind, settings = CASES[case]
    if count == 4:
        settings = {"num_attention_heads": 8, **settings}
    model = make_random_model(kind, **settings)
    if kind.removesuffix("_text") in UNDIVIDED:
        with pytest.raises(UnsupportedModel, match="cannot be divided among GPUs"):
            divided_logits(model.config, model.canonical(), tokens, count)
        return
    expected = compute_logits(model.config, model.canonical(), tokens)
    found = divided_logits(model.config, model.canonical(), tokens, count)
    assert float((found - expected).abs().max() / expected.abs().max()) < 1e-5
