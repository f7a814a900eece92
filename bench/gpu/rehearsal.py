"""Sizes at which measurements are tried on a CPU, where those of large models would take hours."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from gpu.experts import Mixture
from gpu.random_model import DELTA_NET, SHORT_CONVOLUTION, STATE_SPACE
from gpu.recurrent import RecurrentCase
from gpu.weights import Shape

_MATRICES = (Shape("gate or up", 256, 256), Shape("down", 64, 512))
_MIXTURES = (Mixture("fine", "Q4_K", 4, 2, 256, 256), Mixture("coarse", "MXFP4", 4, 1, 256, 256))
_RECURRENT = tuple(
    RecurrentCase("small", shape) for shape in (DELTA_NET, STATE_SPACE, SHORT_CONVOLUTION)
)
_SMALL: Mapping[str, Mapping[str, Any]] = {
    "session": {"_COLD_BYTES": 1 << 18},
    "attention": {
        "CONTEXTS": (96,),
        "SEQUENCES": (1, 2),
        "PROMPT": 32,
        "VERIFIED": (2, 16),
        "VERIFIED_CONTEXT": 64,
        "MIXTURES": ((96, 32), (64, 64)),
        "COMBINED": ((100,), (70, 64)),
        "REPEATS": 2,
    },
    "bandwidth": {
        "SHAPES": _MATRICES,
        "COLUMNS": (1, 8),
        "COPY_BYTES": 1 << 20,
        "MATMUL_SIZE": 256,
    },
    "correctness": {"HUGE_ROWS": 201, "HUGE_INPUTS": 256},
    "crossover": {"ROWS": 256, "INPUTS": 256, "MANY": (64, 128)},
    "decode_step": {
        "LAYERS": 2,
        "WIDTH": 256,
        "HIDDEN": 256,
        "KEYS": 64,
        "VOCABULARY": 256,
        "COLUMNS": (1, 8),
    },
    "experts": {"MIXTURES": _MIXTURES, "TOKENS": (1, 8)},
    "fp8": {"SHAPES": _MATRICES, "COLUMNS": (1, 8)},
    "fusions": {"TOKENS": (1, 8), "COLUMNS": (1, 8), "WIDTH": 256, "HIDDEN": 256},
    "heads": {"TOKENS": (1, 2, 5), "SPLITS": ((1, 8), (2, 4))},
    "many_columns": {"SHAPES": _MATRICES[1:]},
    "recurrent": {"CASES": _RECURRENT, "TOKENS": (1, 8)},
    "rows": {"ROWS": 256, "INPUTS": 256, "TOKENS": (8, 32)},
    "sampling": {"VOCAB": 4001, "ROWS": (1, 2, 3), "STEPS": 2},
    "tuning": {"SHAPES": _MATRICES[1:], "COLUMNS": (1, 8)},
}


@contextmanager
def rehearsal() -> Generator[None]:
    """Let all parts use small sizes."""
    places = {name: vars(importlib.import_module(f"gpu.{name}")) for name in _SMALL}
    before = {name: {each: places[name][each] for each in _SMALL[name]} for name in _SMALL}
    try:
        for name, sizes in _SMALL.items():
            places[name].update(sizes)
        yield
    finally:
        for name, sizes in before.items():
            places[name].update(sizes)
