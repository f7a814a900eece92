"""Sanitizer cases of csrc/dequantize_rows.cuh; arrays end where their data ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .replay import Case

ROWS, INPUTS = 3, 1280
ROW_BYTES = {
    "q4_0": 720,
    "q4_1": 800,
    "q5_0": 880,
    "q5_1": 960,
    "q8_0": 1360,
    "q4_k": 720,
    "q5_k": 880,
    "q6_k": 1056,
    "nf4": 672,
    "g4": 720,
}


def dequantize_rows_cases() -> list[Case]:
    """Return each format by range and by id, with two invalid ids."""
    random = np.random.default_rng(0)
    ids = np.array([2, -1, 0, ROWS])
    cases: list[Case] = []
    for name, size in ROW_BYTES.items():
        # Bytes below 0x40 are never part of an infinite scale.
        data = random.integers(0, 64, (ROWS, size), dtype=np.uint8)
        extra: tuple[NDArray[np.float32] | int, ...] = (64,) if name == "g4" else ()
        if name == "nf4":
            sizes = 256, -(-ROWS * INPUTS // 64 // 256), 1
            extra = tuple(random.normal(size=each).astype(np.float32) for each in sizes)
        halves, floats = np.zeros((ROWS - 1, INPUTS), np.uint16), np.zeros((4, INPUTS), np.float32)
        following = (data, halves, ROWS, INPUTS, size, 2, 1, *extra)
        by_id = (data, floats, ROWS, INPUTS, size, 0, ids, 0.7, *extra)
        cases += [
            Case(f"dequantize_rows_{name}", (ROWS - 1, 1, 1), (96, 1, 1), following),
            Case(f"gather_rows_{name}", (4, 2, 1), (64, 1, 1), by_id),
        ]
    table, values = np.ones((ROWS, 48), np.float16), np.zeros((4, 48), np.uint16)
    dense = (table, values, ROWS, 48, 96, 1, ids, 0.7, 1)
    return [*cases, Case("gather_rows_dense", (4, 1, 1), (32, 1, 1), dense)]
