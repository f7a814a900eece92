"""Which variant of each product is fastest: rows a warp takes, and warps that share them."""

from __future__ import annotations

from typing import Any

import torch
from gpu.bandwidth import cold_weights, copy_rate, product_launches
from gpu.session import Session
from gpu.weights import KINDS, SHAPES, kinds_of

from ingle.kernels.matmul.quantized_gemv import GemvVariant

SOURCES = {kind: f"{kind.lower()}.cuh" for kind in KINDS}
COLUMNS = (1, 4, 8)
VARIANTS = [GemvVariant(rows, split) for rows in (1, 2, 4) for split in (1, 2, 4)]
NAMES = ("output of attention", "query, key, value", "gate and up", "down", "LM head")


def defines(columns: int) -> dict[str, str]:
    """All variants for so many columns; four rows of eight columns do not fit into registers."""
    chosen = [v for v in VARIANTS if v.rows * columns <= 16]
    text = " ".join(f"VARIANT({v.rows}, {columns}, {v.split})" for v in chosen)
    return {"GEMV_VARIANTS": text}


def run(session: Session) -> dict[str, object]:
    """Microseconds of every variant, by kind, shape and columns."""
    sources = [(source, defines(columns)) for source in SOURCES.values() for columns in COLUMNS]
    seconds = session.compile(sources)
    copy = copy_rate(session)
    rows: list[dict[str, Any]] = []
    skipped: list[str] = []
    for shape in [shape for shape in SHAPES if shape.name in NAMES]:
        for kind in kinds_of(shape):
            if session.seconds_left < 15:
                skipped.append(f"{kind} {shape.name}: no time was left")
                continue
            weights = cold_weights(session, kind, shape)
            for columns in COLUMNS:
                gemv = session.gemv(defines(columns))
                times: dict[str, float] = {}
                for variant in (v for v in VARIANTS if v.rows * columns <= 16):
                    launches = product_launches(session, gemv, weights, columns, variant)
                    time = session.time(launches, repeats=5)
                    times[f"r{variant.rows} s{variant.split}"] = round(time * 1e6, 2)
                best = min(times, key=lambda name: times[name])
                percent = 100 * weights[0].nbytes / (times[best] / 1e6) / copy
                rows.append(
                    {"kind": kind, "shape": shape.name, "columns": columns, "best": best}
                    | {"percent_of_copy": round(percent, 1), "us": times}
                )
            torch.cuda.empty_cache()
    return {"compile_seconds": round(seconds, 1), "variants": rows, "skipped": skipped}


def table(result: dict[str, Any]) -> list[str]:
    """The best of each."""
    lines = [
        f"{row['kind']:<5}{row['shape']:<21}{row['columns']} col: {row['best']} "
        f"{row['us'][row['best']]:>8.2f} us, {row['percent_of_copy']:>5.1f} % of the copy"
        for row in result["variants"]
    ]
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]
