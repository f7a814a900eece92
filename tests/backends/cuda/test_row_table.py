"""The rows of states that a step's sequences read and write, as kernels see them."""

from __future__ import annotations

from itertools import pairwise

import torch

from ingle.backends.cuda.row_table import RowTable
from ingle.backends.engine.batch import StateStep
from ingle.kernels.recurrent.pooled_states import StepRows


def writes_of(rows: StepRows) -> list[list[tuple[int, int]]]:
    """Return after how many tokens each sequence is written where."""
    starts, tokens, targets = ([*map(int, part)] for part in rows[2:])
    pairs = list(zip(tokens, targets, strict=True))
    return [pairs[first:end] for first, end in pairwise(starts)]


def test_kernels_see_the_rows_of_each_step() -> None:
    table = RowTable(sequences=4, writes=6, device=torch.device("cpu"))
    starts = torch.tensor([0, 5, 6, 6], dtype=torch.int32)
    rows = table.rows(starts)
    assert rows.reads.tolist() == [-1, -1, -1]  # pyright: ignore[reportUnknownMemberType]
    assert writes_of(rows) == [[], [], []]
    first = StateStep(None, ((2, 5), (5, 0))), StateStep(1, ((1, 1),))
    table.fill(first)
    assert rows.reads.tolist() == [-1, 1, -1], "the addresses are those of before"  # pyright: ignore[reportUnknownMemberType]
    assert writes_of(rows) == [[(2, 5), (5, 0)], [(1, 1)], []]
    with table.read_only():
        assert writes_of(rows) == [[], [], []]
    assert writes_of(rows) == [[(2, 5), (5, 0)], [(1, 1)], []]
    table.fill([StateStep(0, ((1, 0),))])
    assert writes_of(rows) == [[(1, 0)], [], []]
