"""How a step's prompt tokens are divided among prompts that are read at the same time."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.requests import Priority
from ..sequence import Sequence

_SURE = 4
"""The prompt that came first is sure of this fraction's inverse, however many shorter ones come."""


def split_prefill(prompts: Mapping[Sequence, int], room: int) -> dict[Sequence, int]:
    """Tokens for each prompt, `room` in all: interactive before batch, the shortest rest first.

    `prompts` has what each may read in this step. A short question behind a long document is
    answered as soon as if it were alone, which delays the document by no more than the question's
    own tokens. The oldest prompt gets a quarter in any case, so that it takes at most four times
    as long as alone.
    """
    shares: dict[Sequence, int] = {}
    for priority in Priority:
        mine = [sequence for sequence in prompts if sequence.priority is priority]
        if not mine or room < 1:
            continue
        oldest = min(mine, key=lambda sequence: sequence.arrived_at)
        shares[oldest] = min(prompts[oldest], max(1, room // _SURE))
        room -= shares[oldest]
        for sequence in sorted(mine, key=lambda sequence: sequence.num_pending):
            given = shares.get(sequence, 0)
            more = min(prompts[sequence] - given, room)
            if more > 0:
                shares[sequence] = given + more
                room -= more
    return shares
