"""Products with many columns on tensor cores, beside those without and torch in bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from gpu.bandwidth import cold_weights
from gpu.session import Session, copies_for
from gpu.weights import COMMON_KINDS, KINDS, SHAPES, Shape, random_weight, repacked

from ingle.kernels.elementwise.activations import q8_tiles
from ingle.kernels.formats.weight import RepackedTensor
from ingle.kernels.formats.weight_format import WEIGHT_FORMATS
from ingle.kernels.matmul.quantized_gemm import (
    GEMM_SHAPES,
    GemmPlan,
    QuantizedGemm,
    can_have_few_stages,
)
from ingle.kernels.matmul.quantized_gemv import MOST_COLUMNS, quantized_gemv_reference

COLUMNS = (3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512)
NAMES = ("output of attention", "gate or up", "down")
# Relative in the Euclidean norm; NF4's values as bytes differ from exact ones.
TOLERANCES = {"NF4": 7e-3}
TOLERANCE = 1e-5
# Rows, inputs, columns; blocks by their columns, and how many.
CASES = (
    (7, 256, 3, 8, 1),
    (130, 1280, 20, 16, 7),
    (257, 2816, 70, 32, 5),
    (1024, 4096, 64, 64, 132),
    (515, 14336, 200, 128, 96),
    (4096, 4096, 33, 8, 132),
)


def wrong_products(session: Session) -> Iterator[str]:
    """Where products are further from exact ones of the same quantised numbers than rounding is."""
    gemv, gemm = session.gemv(), QuantizedGemm(session.library(), session.device)
    for kind in _kinds():
        for rows, inputs, columns, wide, blocks in CASES[:2] if session.on_cpu else CASES:
            weight = random_weight(kind, rows, inputs, session.device, seed=rows)
            generator = torch.Generator(session.device).manual_seed(columns)
            x = torch.randn(columns, inputs, device=session.device, generator=generator)
            tiles, out = gemv.quantize(x), torch.full((columns, rows), torch.nan).to(x.device)
            expected = quantized_gemv_reference(weight, tiles)
            for again in range(2):  # the second run must not depend on the first
                gemm.multiply(repacked(weight), tiles, out, plan=GemmPlan(wide, blocks))
                error = float(((out - expected) ** 2).sum().sqrt() / (expected**2).sum().sqrt())
                if not error <= TOLERANCES.get(kind, TOLERANCE):
                    shape = f"{kind} {rows}x{inputs}, {columns} columns by {wide}"
                    yield f"{shape}, time {again + 1}: error {error:.1e}"


def run(session: Session) -> dict[str, object]:
    """Microseconds by kind, shape and columns: of every width of blocks, and of the others."""
    rows: list[dict[str, Any]] = []
    skipped: list[str] = []
    for shape in [shape for shape in SHAPES if shape.name in NAMES]:
        plain = _bfloat16_times(session, shape)
        for kind in COMMON_KINDS:
            if session.seconds_left < 15:
                skipped.append(f"{kind} {shape.name}: no time was left")
                continue
            weights = cold_weights(session, kind, shape)
            for columns in COLUMNS:
                row = {"kind": kind, "shape": shape.name, "columns": columns}
                times = _times(session, weights, columns)
                rows.append(row | {"us": times, "bfloat16_us": plain[columns]})
            torch.cuda.empty_cache()
    return {"products": rows, "costs": costs(rows), "skipped": skipped}


def table(result: dict[str, Any]) -> list[str]:
    """Return the fastest way to multiply for each, and the values for the table of costs."""
    lines: list[str] = []
    for row in result["products"]:
        times: dict[str, float] = row["us"]
        best = min(times, key=lambda name: times[name])
        ours = f"{best:>9} {times[best]:>9.1f} us"
        lines.append(
            f"{row['kind']:<5}{row['shape']:<21}{row['columns']:>4} col: {ours}, "
            f"bfloat16 {row['bfloat16_us']:>8.1f} us"
        )
    lines.append(f"costs of blocks by columns: {result['costs']}")
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]


def costs(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the input of `QuantizedGemm`: the time of full blocks of Q4_K by their columns."""
    found = {
        row["columns"]: row["us"][f"block {row['columns']}"]
        for row in rows
        if row["kind"] == "Q4_K" and row["shape"] == "down" and row["columns"] in GEMM_SHAPES
    }
    return {str(columns): found[columns] for columns in sorted(found)}


def _kinds() -> list[str]:
    return [kind for kind in KINDS if kind in WEIGHT_FORMATS and WEIGHT_FORMATS[kind].has_kernels]


def _times(session: Session, weights: Sequence[RepackedTensor], columns: int) -> dict[str, float]:
    rows, inputs = weights[0].shape
    tiles = q8_tiles(columns, inputs, session.device).zero_()
    out = torch.empty(columns, rows, device=session.device, dtype=torch.bfloat16)
    ways: dict[str, Callable[[RepackedTensor], object]] = {}
    if columns <= MOST_COLUMNS:
        gemv = session.gemv()
        ways["no tensor cores"] = lambda weight: gemv.multiply(weight, tiles, out)
    for wide in GEMM_SHAPES:
        if wide >= 2 * columns and wide > min(GEMM_SHAPES):
            continue
        gemm = QuantizedGemm(session.library(), session.device)
        for few_stages in (False, True) if can_have_few_stages(weights[0], wide) else (False,):
            plan = gemm.plan_blocks(weights[0], rows, columns, wide, few_stages=few_stages)
            name = f"block {wide}, two stages" if few_stages else f"block {wide}"
            ways[name] = partial(gemm.multiply, tiles=tiles, out=out, plan=plan)
    times: dict[str, float] = {}
    for name, way in ways.items():
        launches = [partial(way, weight) for weight in weights]
        times[name] = round(session.time(launches, repeats=5) * 1e6, 2)
    return times


def _bfloat16_times(session: Session, shape: Shape) -> dict[int, float]:
    dtype, times = torch.bfloat16, dict[int, float]()
    weights = [
        torch.randn(shape.rows, shape.inputs, device=session.device, dtype=dtype)
        for _ in range(copies_for(2 * shape.rows * shape.inputs))
    ]
    for columns in COLUMNS:
        x = torch.randn(columns, shape.inputs, device=session.device, dtype=dtype)
        out = torch.empty(columns, shape.rows, device=session.device, dtype=dtype)
        launches = [partial(torch.mm, x, weight.T, out=out) for weight in weights]
        times[columns] = round(session.time(launches, repeats=5) * 1e6, 2)
    return times
