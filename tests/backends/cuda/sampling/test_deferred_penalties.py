"""A token that only the device knows is penalised as if the host knew it, to the last bit."""

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


def answered(said: Items[int], fields: dict[str, Any]) -> Sequence:
    sequence = Sequence("r", 0, [3, 4], SamplingParams(seed=1, **fields))
    sequence.token_ids += said
    return sequence


def adjust(chunks: list[ScheduledChunk], logits: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
    states = [SamplingState(chunk.sequence) for chunk in chunks]
    logits = logits.clone()
    adjustments = Adjustments(chunks, states, DryPenalties(ByteTokenizer(), room=100))
    adjustments.apply(logits, drawn)
    return logits


@pytest.mark.parametrize("seed", range(20))
def test_it_makes_no_difference_who_knows_a_token(seed: int) -> None:
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(random.normal(0, 3, (len(KINDS), VOCAB)).astype(np.float32))  # pyright: ignore[reportUnknownMemberType]
    known: list[ScheduledChunk] = []
    awaiting: list[ScheduledChunk] = []
    drawn = torch.from_numpy(random.integers(0, VOCAB, 30))  # pyright: ignore[reportUnknownMemberType]
    rows = random.permutation(30)
    for kind, row in zip(KINDS, rows.tolist(), strict=False):
        said = random.integers(0, VOCAB, random.integers(0, 12)).tolist()
        known.append(ScheduledChunk(answered([*said, int(drawn[row])], kind), 1, True))
        sequence = answered(said, kind)
        sequence.num_awaited = 1
        awaiting.append(ScheduledChunk(sequence, 1, True, awaits=row))
    # Others in the same batch, whose tokens are known, stay as they are.
    mixed = [*awaiting[:3], *known[3:5], *awaiting[5:]]
    expected = adjust(known, logits, drawn)
    assert torch.equal(adjust(awaiting, logits, drawn), expected)
    assert torch.equal(adjust(mixed, logits, drawn), expected)
    assert not torch.equal(expected, logits)
