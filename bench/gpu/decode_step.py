"""Measures all products of one decode step of Llama-3.1-8B as Q4_K_M, in one CUDA graph.

No attention, no norms: a lower bound of a step, with the gaps between its kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from gpu.bandwidth import copy_rate
from gpu.session import Session, Skipped
from gpu.weights import random_weight, repacked

from ingle.kernels.formats.weight import RepackedTensor
from ingle.kernels.matmul.quantized_gemv import QuantizedGemv

LAYERS, WIDTH, HIDDEN, KEYS, VOCABULARY = 32, 4096, 14336, 1024, 128256
COLUMNS = (1, 2, 4, 8)
VARIANTS = ((False, True), (True, True), (True, False))
"""Whether kernels overlap, and whether all prefer the same share of shared memory."""


def run(session: Session) -> dict[str, object]:
    """Milliseconds of a step and percent of a copy, by columns."""
    if session.free_memory < 9 << 30:
        raise Skipped("there are less than 9 GiB of free memory")
    copy, weights = copy_rate(session), model(session)
    size = sum(weight.nbytes for weight in weights)
    rows: list[dict[str, Any]] = []
    for columns, (overlap, carveout) in product(COLUMNS, VARIANTS):
        gemv = session.gemv(overlap=overlap, carveout=carveout)
        launches = step_launches(session, gemv, weights, columns)

        def step(launches: list[Callable[[], object]] = launches) -> None:
            for launch in launches:
                launch()

        seconds = session.time([step])
        rows.append(
            {
                "columns": columns,
                "overlap": overlap,
                "carveout": carveout,
                "launches": len(launches),
                "ms": round(seconds * 1e3, 3),
                "steps_a_second": round(1 / seconds, 1),
                "percent_of_copy": round(100 * size / seconds / copy, 1),
            }
        )
    return {"weight_bytes": size, "copy_gb_s": round(copy / 1e9, 1), "steps": rows}


def table(result: dict[str, Any]) -> list[str]:
    """One line for each number of columns."""
    first = min(row["ms"] for row in result["steps"] if row["columns"] == 1)
    return [
        f"{row['columns']} columns{', overlapping' if row['overlap'] else ''}"
        f"{'' if row['carveout'] else ', driver chooses shared memory'}: {row['ms']} ms, "
        f"{row['steps_a_second']} steps/s, {row['percent_of_copy']} % of the copy, "
        f"{row['ms'] / first:.2f} of one column's time"
        for row in result["steps"]
    ]


def model(session: Session) -> list[RepackedTensor]:
    """Matrices in the order of a step; half of the layers have value and down in Q6_K."""
    kinds: list[tuple[str, int, int]] = []
    for layer in range(LAYERS):
        finer = "Q6_K" if layer % 2 else "Q4_K"
        kinds += [
            ("Q4_K", WIDTH + KEYS, WIDTH),
            (finer, KEYS, WIDTH),
            ("Q4_K", WIDTH, WIDTH),
            ("Q4_K", 2 * HIDDEN, WIDTH),
            (finer, WIDTH, HIDDEN),
        ]
    kinds.append(("Q6_K", VOCABULARY, WIDTH))
    return [
        repacked(random_weight(kind, rows, inputs, session.device, seed))
        for seed, (kind, rows, inputs) in enumerate(kinds)
    ]


def step_launches(
    session: Session,
    gemv: QuantizedGemv,
    weights: list[RepackedTensor],
    columns: int,
) -> list[Callable[[], object]]:
    """Each product after the quantisation of its input, which products of one input share."""
    launches: list[Callable[[], object]] = []
    inputs: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for number, weight in enumerate(weights):
        rows, width = weight.shape
        if width not in inputs:
            x = torch.randn(columns, width, device=session.device, dtype=torch.bfloat16)
            inputs[width] = x, gemv.quantize(x)
        x, tiles = inputs[width]
        out = torch.empty(columns, rows, device=session.device, dtype=torch.bfloat16)
        if number % 5 != 1 or number == len(weights) - 1:  # value reads the same as query and key
            launches.append(lambda x=x, tiles=tiles: gemv.quantize(x, tiles))
        launches.append(
            lambda weight=weight, tiles=tiles, out=out: gemv.multiply(weight, tiles, out)
        )
    return launches
