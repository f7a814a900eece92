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
from ingle.models.parallel.divisible import check_divisible, device_parts
from ingle.models.parallel.model_shard import ModelShard
from ingle.models.parallel.rank_group import RankGroup
from ingle.models.parallel.sharded_weights import ShardedWeights, blocks_of
from tests.harness.full_attention import FullAttention
from tests.models.families.test_transformers_agreement import CASES

CPU = torch.device("cpu")
EXACT = Operations(torch.float32)
UNDIVIDED = {"olmo2", "olmo3", "olmoe", "gemma3n"}
"""Model types whose layers need all heads or all gates of a token at once."""
FAST = ("llama3", "qwen3_5")
"""A model with attention alone, and one with recurrent layers."""
SIX_HEADS = {"llama2", "phi3, longrope", "glm4_moe"}
"""Cases whose other settings are for as many."""


def compute_divided(
    config: Any, weights: Any, tokens: torch.Tensor, count: int
) -> tuple[torch.Tensor, list[int]]:
    """Return the logits of the first of `count` ranks, and the bytes of the weights of each."""
    check_divisible(config, count)
    store = HashStore()
    blocks = blocks_of(weights)

    @torch.inference_mode()
    def compute(rank: int) -> tuple[torch.Tensor, int]:
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
        logits = model.forward(tokens, places, FullAttention(shard.config), places)
        return logits, model.weights_bytes

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(compute, range(count)))
    return found[0][0], [nbytes for _, nbytes in found]


def check_shares(config: Any, weights: Any, held: list[int]) -> None:
    """Compare the predicted bytes of each rank with those that it has, within 3 percent."""
    whole = Transformer(config, weights, device=CPU, operations=EXACT).weights_bytes
    # Predicted as if each rank had them whole: only in models this small they count.
    biases = sum(weights.get(name).nbytes for name in weights.names if name.endswith("bias"))
    parts = device_parts(config, whole // torch.float32.itemsize, len(held))
    for nbytes, part in zip(held, parts, strict=True):
        assert nbytes <= whole * part.share * 1.03
        assert nbytes >= whole * part.share * 0.97 - biases


@pytest.mark.parametrize(
    ("case", "count"),
    [
        *((case, 2) for case in FAST),
        *(pytest.param(case, 2, marks=pytest.mark.slow) for case in CASES if case not in FAST),
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
            compute_divided(model.config, model.canonical(), tokens, count)
        return
    expected = compute_logits(model.config, model.canonical(), tokens)
    found, held = compute_divided(model.config, model.canonical(), tokens, count)
    check_shares(model.config, model.canonical(), held)
    assert float((found - expected).abs().max() / expected.abs().max()) < 1e-5
