"""Sanitizer cases of the sampling kernels; arrays end where their data ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from ingle.kernels.token_sampling import sample_row

from .replay import Case

VOCAB, STRIDE = 397, 401


def sample_cases() -> list[Case]:
    """Return all kinds of sampling, with and without masks, by one block per row and by several."""
    kinds = [
        sample_row(temperature=0.0, row=1, mask=0),
        sample_row(row=2),
        sample_row(min_p=0.02, mask=1),
        sample_row(top_k=5, top_p=0.9, min_p=0.1, mask=1, seed=4),
        sample_row(top_p=0.99, temperature=3.0),
        sample_row(top_k=390),
    ]
    rows = np.concatenate(kinds)
    random = np.random.default_rng(0)
    logits = random.standard_normal(2 * STRIDE + VOCAB).astype(np.float32)
    masks = random.integers(-(2**31), 2**31, (2, -(-VOCAB // 32)), dtype=np.int32)
    groups = -(-VOCAB // 64)
    room = np.full((len(rows), groups, 2), -1, np.int32)
    counters, tokens = np.zeros(len(rows), np.int32), np.zeros(3, np.int64)
    arguments = logits, rows.view(np.uint8), masks, room, counters, tokens, VOCAB, STRIDE
    # Each sample needs a row of its own, or their results would overwrite each other in any order.
    return [
        Case(
            "sample_rows",
            (parts, 1, 1),
            (64, 1, 1),
            (logits, rows[i : i + 1].view(np.uint8), *arguments[2:]),
            4 * groups,
        )
        for i in range(len(rows))
        for parts in (1, 2)
    ]


def adjust_logits_cases() -> list[Case]:
    """Return two rows, one with entries of all kinds; both await the last token."""
    logits = np.linspace(-3, 3, 2 * STRIDE, dtype=np.float32)[: STRIDE + VOCAB]
    offsets = np.array([[0, 0, 2], [2, 2, 3], [3, 4, 5]], np.int32)
    tokens = np.array([0, VOCAB - 1, VOCAB - 1, 3, VOCAB - 1], np.int32)
    values = np.arange(15, dtype=np.float32).reshape(5, 3) + 1
    awaited, first = np.array([2, 2], np.int32), np.array([[2, 0.5], [3, 0.25]], np.float32)
    sampled = np.array([-9, -9, VOCAB - 1], np.int64)
    arguments = logits, offsets, tokens, values, awaited, first, sampled, STRIDE
    return [Case("adjust_logits", (2, 1, 1), (128, 1, 1), arguments)]


def continue_step_cases() -> list[Case]:
    """Return steps of two sequences and a row of padding: one as it was sent, one that goes on."""
    known, origins = np.array([5, 6, 7], np.int64), np.array([2, 0, 1], np.int64)
    drawn, tokens = np.array([8, 9], np.int64), np.zeros(3, np.int64)
    positions, slots = np.array([31, 4, 0], np.int64), np.array([95, 4, 7], np.int64)
    lengths, tables = np.array([32, 5, 0], np.int32), np.array([[2, 3], [0, 1]], np.int32)
    rows = np.concatenate([sample_row(row=row) for row in range(2)]).view(np.uint8)
    arrays = known, origins, drawn, tokens, positions, slots, lengths, tables
    return [
        Case("continue_step", (1, 1, 1), (128, 1, 1), (*arrays, follows, rows, 3, 2, 5))
        for follows in (np.zeros(1, np.int32), np.ones(1, np.int32))
    ]


SAMPLING_CASES: Mapping[str, Callable[[], list[Case]]] = MappingProxyType(
    {
        "sample": sample_cases,
        "adjust_logits": adjust_logits_cases,
        "continue_step": continue_step_cases,
    }
)
"""By the names of sources."""
