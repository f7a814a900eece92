"""Fixtures: quantised matrices of random bytes; reduction of large parameter grids."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.formats.weight_format import WEIGHT_FORMATS

from .csrc.limits_record import SOURCES, changed

MakeQuantized = Callable[..., QuantizedTensor]

# Offsets of the 16-bit floats of a block: random bytes there could be infinity or NaN.
_SCALES = {
    "F32": (),
    "F16": (0,),
    "BF16": (),
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "MXFP4": (),
    "G4_32": (),
    "G4_64": (),
    "G4_128": (),
}


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:  # pyright: ignore[reportUnusedFunction]
    """Seed torch, so that a test fails always or never."""
    torch.default_generator.manual_seed(0)


@pytest.fixture
def make_quantized() -> MakeQuantized:
    """Return a factory of random matrices; `tame` gives them scales as large as real models'."""

    def make(
        kind: str, rows: int, columns: int, seed: int = 0, *, tame: bool = False
    ) -> QuantizedTensor:
        block = WEIGHT_FORMATS[kind]
        random = np.random.default_rng(seed)
        blocks = random.integers(
            0, 256, (rows * columns // block.block_elements, block.block_bytes), dtype=np.uint8
        )
        for place in _SCALES[kind] if tame else ():
            scales = random.normal(0, 1e-3, (len(blocks), 1)).astype(np.float16)
            blocks[:, place : place + 2] = scales.view(np.uint8)
        if kind == "MXFP4" and tame:  # its scale is an exponent
            blocks[:, 0] = random.integers(115, 120, len(blocks))
        if kind.startswith("G4") and tame:  # 24 bits of a float, and a code
            words = random.normal(0, 1e-3, (len(blocks), 1)).astype("<f4").view(np.uint8)
            blocks[:, -4:] = words
            blocks[:, -4] = random.integers(0, 17, len(blocks))
        data = torch.as_tensor(blocks).view(rows, -1)
        return QuantizedTensor(kind, data, columns)

    return make


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but four cases of a parameter grid as slow, spread evenly; nightly runs all.

    For attention, whose Triton kernels are interpreted, two are kept.

    For CUDA kernels, which g++ compiles per format, the kept ones are of two formats that represent
    the two block sizes, and of formats whose source changed since it was recorded.
    """
    grids: dict[tuple[str, str], list[pytest.Item]] = {}
    folder = f"{Path(__file__).parent}{os.sep}"
    for item in items:  # of all folders: comparing paths as such would take a second
        if isinstance(item, pytest.Function) and str(item.path).startswith(folder):
            if _compiles_another_format(item):
                item.add_marker(pytest.mark.slow)
            else:
                grids.setdefault((str(item.path), item.originalname), []).append(item)
    for cases in grids.values():
        last = 1 if cases[0].path.parent.name == "attention" else 3
        kept = {round(place * (len(cases) - 1) / last) for place in range(last + 1)}
        for place, item in enumerate(cases):
            if place not in kept:
                item.add_marker(pytest.mark.slow)


def _compiles_another_format(item: pytest.Function) -> bool:
    if item.path.parent.name != "csrc" or not hasattr(item, "callspec"):
        return False
    values = [value for value in item.callspec.params.values() if isinstance(value, str)]
    formats = set(WEIGHT_FORMATS).intersection(values) - {"Q4_K", "Q4_0"}
    kernels = {WEIGHT_FORMATS[name].kernel for name in formats}
    sources = [source for source in SOURCES for kernel in kernels if kernel in source]
    return bool(formats) and not any(changed(source) for source in sources)
