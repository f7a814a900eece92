"""Quantised matrices of random bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ingle.kernels.formats.quantized_tensor import QuantizedTensor
from ingle.kernels.formats.weight_format import GGML_FORMATS

MakeQuantized = Callable[..., QuantizedTensor]

# Where the 16-bit floats of a block begin: random bytes there would be infinities and NaN too.
_SCALES = {
    "F16": (0,),
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}


@pytest.fixture
def make_quantized() -> MakeQuantized:
    """Makes a matrix of random blocks; `tame` gives it scales of the size that models have."""

    def make(
        kind: str, rows: int, columns: int, seed: int = 0, *, tame: bool = False
    ) -> QuantizedTensor:
        block = GGML_FORMATS[kind]
        random = np.random.default_rng(seed)
        blocks = random.integers(
            0, 256, (rows * columns // block.block_elements, block.block_bytes), dtype=np.uint8
        )
        for place in _SCALES.get(kind, ()) if tame else ():
            scales = random.normal(0, 1e-3, (len(blocks), 1)).astype(np.float16)
            blocks[:, place : place + 2] = scales.view(np.uint8)
        data = torch.as_tensor(blocks).view(rows, -1)
        return QuantizedTensor(kind, data, columns)

    return make


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow all but four cases of a test over a grid, spread evenly; nightly runs all."""
    grids: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and isinstance(item, pytest.Function):
            grids.setdefault((str(item.path), item.originalname), []).append(item)
    for cases in grids.values():
        kept = {round(place * (len(cases) - 1) / 3) for place in range(4)}
        for place, item in enumerate(cases):
            if place not in kept:
                item.add_marker(pytest.mark.slow)
