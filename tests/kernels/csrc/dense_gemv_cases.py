"""Sanitizer cases of csrc/dense_gemv.cuh: rows, inputs and columns that fill no block."""

from __future__ import annotations

import numpy as np

from .replay import Case

_ROWS, _INPUTS = 21, 344


def dense_gemv_cases() -> list[Case]:
    """Return every way to split rows, for each number of columns that has fragments."""
    random = np.random.default_rng(0)
    weight = random.normal(size=(_ROWS, _INPUTS)).astype(np.float16)
    bias, cases = np.ones(_ROWS, np.float32), list[Case]()
    for columns, width in ((3, 8), (13, 16)):
        x = random.normal(size=(columns, _INPUTS)).astype(np.float16)
        for rows, split in ((16, 1), (16, 4), (8, 4), (8, 8)):
            out = np.full((columns, _ROWS), np.nan, np.float32)
            warps = max(4, split)
            grid, block = (-(-_ROWS // (rows * warps // split)), 1, 1), (32 * warps, 1, 1)
            arguments = (weight, x, _ROWS, _INPUTS, columns, out, bias, 1.0, _ROWS, 0)
            cases.append(Case(f"dense_gemv_f16_r{rows}_c{width}_s{split}", grid, block, arguments))
    return cases


def dense_gated_cases() -> list[Case]:
    """Return the same for fused gate and up projections."""
    random = np.random.default_rng(1)
    gate, up = random.normal(size=(2, _ROWS, _INPUTS)).astype(np.float16)
    bias, cases = np.ones(_ROWS, np.float32), list[Case]()
    for columns, width in ((3, 8), (13, 16)):
        x = random.normal(size=(columns, _INPUTS)).astype(np.float16)
        for split in (1, 4):
            out = np.full((columns, _ROWS), np.nan, np.float32)
            grid = (-(-_ROWS * split // 32), 1, 1)
            arguments = (gate, up, x, bias, bias, out, _ROWS, _INPUTS, columns, 0, 1)
            name = f"dense_gated_f16_c{width}_s{split}"
            cases.append(Case(name, grid, (128, 1, 1), arguments))
    return cases
