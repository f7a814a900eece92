"""Drafts of heads are lossless: sampling with them has the distribution of sampling without.

The layers of the model add nothing, so that the next token depends only on the last one, and every
distribution is known exactly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.sequence import Sequence
from tests.harness.chi_square import Probabilities, deviation
from tests.harness.headed_models import (
    FAMILIES,
    SIZES,
    HeadedModel,
    HeadedRunners,
    headed_engine,
    run,
)
from tests.harness.medusa_models import SIZES as MEDUSA_SIZES
from tests.harness.medusa_models import MedusaModel

_LENGTH, _SEQUENCES, _TOKENS = 128, 800, 32
_SAMPLING = SamplingParams(temperature=0.9, top_k=6, top_p=1.0, min_p=0.0, seed=20_000)


def transitions(model: HeadedModel | MedusaModel) -> Probabilities:
    """Return the probabilities of the tokens after token t in row t."""
    logits = model.model.logits(torch.arange(_TOKENS)).double().numpy() / _SAMPLING.temperature
    matrix = np.zeros((_TOKENS, logits.shape[1]))
    for row, probabilities in zip(logits, matrix, strict=True):
        allowed = np.argsort(-row)[: _SAMPLING.top_k]
        weights = np.exp(row[allowed] - row.max())
        probabilities[allowed] = weights / weights.sum()
    return matrix[:, :_TOKENS]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "adversary"),
    [
        ("glm4_moe", "random"),
        ("qwen3_5_text", "random"),
        ("qwen3_5_text", "likeliest"),
        ("llama", "random"),
        ("llama", "repeats"),
    ],
)
def test_drafts_do_not_change_the_distribution(
    kind: str, adversary: str, make_random_model: Any, memory_weights: Any, tmp_path: Path
) -> None:
    """Llama has Medusa heads here, which draft what was likely at the place before."""
    model: HeadedModel | MedusaModel
    if kind == "llama":
        model = MedusaModel(make_random_model(kind, **MEDUSA_SIZES))
    else:
        model = HeadedModel(make_random_model(kind, **SIZES, **FAMILIES[kind]), memory_weights)
        if adversary == "likeliest":
            model.become_copy()
            model.silence_head()
    model.silence()
    with torch.no_grad():  # the first tokens alone follow one another
        random = torch.Generator().manual_seed(3)
        rows = torch.randn(_TOKENS, SIZES["hidden_size"], generator=random) / 6
        model.module.lm_head.weight.zero_()[:_TOKENS] = rows
    draft_path = "random"
    if isinstance(model, MedusaModel):
        if adversary == "repeats":
            model.repeat_the_model()
        draft_path = str(model.save(tmp_path / "heads"))
    expected = transitions(model)
    assert np.allclose(expected.sum(1), 1), "all tokens that can follow are counted"

    runners = HeadedRunners()
    engine = headed_engine(
        runners.load(model.source, slots=8, kv_capacity=2048, draft_path=draft_path), depth=2
    )
    together = [
        Sequence("r", index, [2 + index % 20], _SAMPLING, max_tokens=_LENGTH, ignore_eos=True)
        for index in range(_SEQUENCES)
    ]
    run(engine, together)
    counts = np.zeros((_TOKENS, _TOKENS), np.int64)
    for sequence in together:
        np.add.at(counts, (sequence.token_ids[:-1], sequence.token_ids[1:]), 1)
    runners.close()
    assert counts.sum() == _SEQUENCES * _LENGTH > 100_000
    assert deviation(counts, expected) < 3.5
    gauges = engine.gauges()
    rate = gauges.accepted_tokens_total / gauges.drafted_tokens_total
    low, high = {"likeliest": (0.15, 0.9), "random": (0.0, 0.2), "repeats": (0.01, 0.2)}[adversary]
    assert low <= rate < high
