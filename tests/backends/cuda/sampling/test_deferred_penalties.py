"""Penalties for a token in flight, known only to the device, are exact."""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any

import numpy as np
import pytest
import torch

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.sampling.dry_penalties import DryPenalties
from ingle.backends.cuda.sampling.logit_adjustments import Adjustments
from ingle.backends.cuda.sampling.sampling_state import SamplingState
from ingle.backends.engine.batch import ScheduledChunk
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.byte_tokenizer import ByteTokenizer

VOCAB = 20
KINDS: list[dict[str, Any]] = [
    {"repeat_penalty": 1.3},
    {"frequency_penalty": 0.7},
    {"presence_penalty": 0.4, "frequency_penalty": 0.1},
    {"repeat_penalty": 0.7, "frequency_penalty": -0.3, "repeat_last_n": 3},
    {"repeat_penalty": 1.1, "presence_penalty": 1.5, "repeat_last_n": 1},
    {"frequency_penalty": 0.9, "repeat_last_n": -1},
    {"temperature": 0.9},
]


def answered(tokens: Items[int], fields: dict[str, Any]) -> Sequence:
    sequence = Sequence("r", 0, [3, 4], SamplingParams(seed=1, **fields))
    sequence.token_ids += tokens
    return sequence


def adjust(
    chunks: list[ScheduledChunk], logits: torch.Tensor, sampled: torch.Tensor
) -> torch.Tensor:
    states = [SamplingState(chunk.sequence) for chunk in chunks]
    logits = logits.clone()
    adjustments = Adjustments(chunks, states, DryPenalties(ByteTokenizer(), room=100))
    adjustments.apply(logits, sampled)
    return logits


@pytest.mark.parametrize("seed", range(20))
def test_penalties_for_tokens_in_flight_are_exact(seed: int) -> None:
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(random.normal(0, 3, (len(KINDS), VOCAB)).astype(np.float32))  # pyright: ignore[reportUnknownMemberType]
    known: list[ScheduledChunk] = []
    awaiting: list[ScheduledChunk] = []
    sampled = torch.from_numpy(random.integers(0, VOCAB, 30))  # pyright: ignore[reportUnknownMemberType]
    rows = random.permutation(30)
    for kind, row in zip(KINDS, rows.tolist(), strict=False):
        tokens = random.integers(0, VOCAB, random.integers(0, 12)).tolist()
        known.append(ScheduledChunk(answered([*tokens, int(sampled[row])], kind), 1, True))
        sequence = answered(tokens, kind)
        sequence.num_awaited = 1
        awaiting.append(ScheduledChunk(sequence, 1, True, awaits=row))
    # A batch may also contain sequences whose tokens are all known.
    mixed = [*awaiting[:3], *known[3:5], *awaiting[5:]]
    expected = adjust(known, logits, sampled)
    assert torch.equal(adjust(awaiting, logits, sampled), expected)
    assert torch.equal(adjust(mixed, logits, sampled), expected)
    assert not torch.equal(expected, logits)


@pytest.mark.parametrize(("last_n", "penalized"), [(8, [9]), (7, []), (-1, [9]), (100, [9])])
def test_dry_looks_back_exactly_as_far_as_it_should(last_n: int, penalized: list[int]) -> None:
    params = SamplingParams(
        dry_multiplier=1.0,
        dry_allowed_length=2,
        dry_penalty_last_n=last_n,
        dry_sequence_breakers=(),
    )
    dry = DryPenalties(ByteTokenizer(), room=8)
    assert list(dry.penalties(params, [7, 8, 9, 1, 2, 3, 7, 8])) == penalized
