"""Models divided by layers among ranks, which are threads here, compute what one process does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch._C._distributed_c10d import HashStore

from ingle.kernels.operations import Operations
from ingle.models.errors import UnsupportedModel
from ingle.models.layers.transformer import Transformer
from ingle.models.parallel.layer_stages import (
    LayerStage,
    StageWeights,
    stage_config,
    stage_parts,
    stage_ranges,
    stage_sizes,
)
from ingle.models.parallel.rank_group import RankGroup
from tests.harness.full_attention import FullAttention
from tests.models.families.test_transformers_agreement import CASES

CPU = torch.device("cpu")
EXACT = Operations(torch.float32)
FAST = ("llama3", "gemma4, one value")
"""A model that ends in its embeddings, and one whose layers differ."""


def compute_staged(
    config: Any, weights: Any, tokens: torch.Tensor, sizes: tuple[int, ...]
) -> tuple[torch.Tensor, list[int]]:
    """Return the logits of the first rank, and the bytes of the weights of each."""
    store, count = HashStore(), len(sizes)

    @torch.inference_mode()
    def compute(rank: int) -> tuple[torch.Tensor, int]:
        ranks = RankGroup(rank, count)
        stage = LayerStage(stage_ranges(sizes)[rank], config, ranks)
        own = stage_config(config, stage.layers)
        model = Transformer(
            own, StageWeights(weights, stage), device=CPU, operations=EXACT, stage=stage
        )
        ranks.connect(store, CPU, in_turn=True)
        places = torch.arange(len(tokens))
        logits = model.forward(tokens, places, FullAttention(own), places)
        return logits, model.weights_bytes

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(compute, range(count)))
    return found[0][0], [nbytes for _, nbytes in found]


@pytest.mark.parametrize(
    ("case", "count"),
    [
        *((case, 2) for case in FAST),
        *(pytest.param(case, 2, marks=pytest.mark.slow) for case in CASES if case not in FAST),
        *(pytest.param(case, 4, marks=pytest.mark.slow) for case in CASES),
    ],
)
def test_stages_compute_what_one_process_does(
    case: str, count: int, make_random_model: Any, compute_logits: Any, tokens: torch.Tensor
) -> None:
    kind, settings = CASES[case]
    if "layer_types" not in settings and "mlp_only_layers" not in settings:
        settings = {"num_hidden_layers": 4, **settings}
    model = make_random_model(kind, **settings)
    config, weights = model.config, model.canonical()
    if config.streams is not None or config.layer_input_width:
        with pytest.raises(UnsupportedModel, match="cannot be divided by layers"):
            stage_sizes(config, [1.0] * count)
        return
    try:
        sizes = stage_sizes(config, [1.0] * count)
    except UnsupportedModel:
        assert config.num_layers < count or config.state_bytes
        return
    found, held = compute_staged(config, weights, tokens, sizes)
    assert torch.equal(found, compute_logits(config, weights, tokens))
    whole = Transformer(config, weights, device=CPU, operations=EXACT).weights_bytes
    parts = stage_parts(config, whole // torch.float32.itemsize, sizes)
    for nbytes, part in zip(held, parts, strict=True):
        assert nbytes == pytest.approx(whole * part.share, rel=0.03)
