"""Measures the share of a GPU's bandwidth that matrix products reach, beside a copy and torch in
bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from gpu.fusions import fusion_times
from gpu.rows import large_products, rows_rates
from gpu.session import Session, copies_for
from gpu.weights import SHAPES, Shape, kinds_of, random_weight, repacked

from ingle.kernels.formats.weight import RepackedTensor
from ingle.kernels.matmul.dense_gemv import DenseGemv
from ingle.kernels.matmul.quantized_gemv import GemvVariant, QuantizedGemv

COLUMNS = (1, 2, 4, 8)
SPLITS = (1, 4)
COPY_BYTES = 2 << 30
MATMUL_SIZE = 8192


def run(session: Session) -> dict[str, object]:
    """GB/s of a copy, of torch's products and of each kernel, by shape and columns."""
    copy = copy_rate(session)
    result: dict[str, Any] = {
        "copy_gb_s": round(copy / 1e9, 1),
        "matmul_bf16_tflops": round(matmul_rate(session) / 1e12, 1),
        "quantize_us": quantize_times(session),
        "fusions_us": fusion_times(session),
        "rows_gb_s": rows_rates(session),
        "large_products": large_products(session),
        "skipped": [],
        "products": [],
    }
    for shape in SHAPES:
        for kind in (*kinds_of(shape), "NF4 exact", "bfloat16", "bfloat16 by torch"):
            if session.seconds_left < 15:
                result["skipped"].append(f"{kind} {shape.name}: no time was left")
                continue
            measure = _dense_products if kind.startswith("bfloat16") else _products
            result["products"] += measure(session, shape, kind, copy)
            torch.cuda.empty_cache()
    return result


def table(result: dict[str, Any]) -> list[str]:
    """Percent of the copy for each shape, the best of the splits."""
    lines = [
        f"copy {result['copy_gb_s']} GB/s, bfloat16 matmul {result['matmul_bf16_tflops']} TFLOP/s",
        *(f"{name}: {time} us" for name, time in result["fusions_us"].items()),
        "rows as bfloat16, GB/s: "
        + ", ".join(f"{kind} {rate}" for kind, rate in result["rows_gb_s"].items()),
        *(
            f"{row['tokens']} rows, 14336x4096: Q4_K {row['q4_k_ms']} ms, {row['tflops']} TFLOP/s;"
            f" bfloat16 {row['bfloat16_ms']} ms"
            for row in result["large_products"]
        ),
        f"{'% of the copy':<34}" + "".join(f"{c:>7} col" for c in COLUMNS),
    ]
    best: dict[tuple[str, str], dict[int, float]] = {}
    for row in result["products"]:
        cells = best.setdefault((row["kind"], row["shape"]), {})
        cells[row["columns"]] = max(cells.get(row["columns"], 0), row["percent_of_copy"])
    for (kind, shape), cells in best.items():
        figures = "".join(f"{cells.get(c, float('nan')):>11.1f}" for c in COLUMNS)
        lines.append(f"{kind + ' ' + shape:<34}{figures}")
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]


def copy_rate(session: Session) -> float:
    """Bytes a second, read and written, of a copy within the device's memory."""
    size = min(COPY_BYTES, session.free_memory // 4)
    source = torch.randint(0, 256, (size,), dtype=torch.uint8, device=session.device)
    target = torch.empty_like(source)
    return 2 * size / session.time([lambda: target.copy_(source)])


def matmul_rate(session: Session) -> float:
    """Operations a second of a large product of random bfloat16 matrices."""
    a, b = (
        torch.randn(MATMUL_SIZE, MATMUL_SIZE, device=session.device, dtype=torch.bfloat16)
        for _ in range(2)
    )
    out = torch.empty_like(a)
    return 2 * MATMUL_SIZE**3 / session.time([lambda: torch.mm(a, b, out=out)])


def quantize_times(session: Session) -> dict[str, float]:
    """Microseconds by columns and inputs."""
    gemv, times = session.gemv(), dict[str, float]()
    for columns in (1, 8):
        for inputs in (4096, 14336):
            x = torch.randn(columns, inputs, device=session.device, dtype=torch.bfloat16)
            tiles = gemv.quantize(x)

            def launch(x: torch.Tensor = x, tiles: torch.Tensor = tiles) -> None:
                gemv.quantize(x, tiles)

            times[f"{columns}x{inputs}"] = round(session.time([launch] * 50) * 1e6, 2)
    return times


def product_launches(
    session: Session,
    gemv: QuantizedGemv,
    weights: Sequence[RepackedTensor],
    columns: int,
    variant: GemvVariant,
    *,
    exact: bool = False,
) -> list[Callable[[], object]]:
    """A product with each of `weights`, which are of one shape."""
    rows, inputs = weights[0].shape
    x = torch.randn(columns, inputs, device=session.device, dtype=torch.bfloat16)
    tiles = gemv.quantize(x)
    out = torch.empty(columns, rows, device=session.device, dtype=torch.bfloat16)

    def launch_with(weight: RepackedTensor) -> Callable[[], object]:
        return lambda: gemv.multiply(weight, tiles, out, variant=variant, exact=exact)

    return [launch_with(weight) for weight in weights]


def cold_weights(session: Session, kind: str, shape: Shape) -> list[RepackedTensor]:
    """Enough of them that none is in a cache when its turn comes."""
    first = repacked(random_weight(kind, shape.rows, shape.inputs, session.device))
    rest = copies_for(first.nbytes) - 1
    return [first, *(replace(first, data=first.data.clone()) for _ in range(rest))]


def _products(session: Session, shape: Shape, kind: str, copy: float) -> list[dict[str, Any]]:
    gemv, weights = session.gemv(), cold_weights(session, kind.split()[0], shape)
    rows: list[dict[str, Any]] = []
    for columns in COLUMNS:
        for split in SPLITS:
            launches = product_launches(
                session, gemv, weights, columns, GemvVariant(2, split), exact=kind == "NF4 exact"
            )
            seconds = session.time(launches)
            rows.append(
                _row(shape, kind, columns, weights[0].nbytes, seconds, copy) | {"split": split}
            )
    return rows


def _dense_products(session: Session, shape: Shape, kind: str, copy: float) -> list[dict[str, Any]]:
    dtype = torch.bfloat16
    size = 2 * shape.rows * shape.inputs
    weights = [
        torch.randn(shape.rows, shape.inputs, device=session.device, dtype=dtype)
        for _ in range(copies_for(size))
    ]
    gemv = DenseGemv(session.library())
    rows: list[dict[str, Any]] = []
    for columns in COLUMNS:
        x = torch.randn(columns, shape.inputs, device=session.device, dtype=dtype)
        out = torch.empty(columns, shape.rows, device=session.device, dtype=dtype)

        def launch_with(
            weight: torch.Tensor, x: torch.Tensor = x, out: torch.Tensor = out
        ) -> Callable[[], object]:
            if kind == "bfloat16":
                return lambda: gemv.multiply(weight, x, out)
            return lambda: torch.mm(x, weight.T, out=out)

        seconds = session.time([launch_with(weight) for weight in weights])
        rows.append(_row(shape, kind, columns, size, seconds, copy))
    return rows


def _row(
    shape: Shape, kind: str, columns: int, weight_bytes: int, seconds: float, copy: float
) -> dict[str, Any]:
    moved = weight_bytes + columns * (shape.inputs * 3 // 2 + 2 * shape.rows)
    return {
        "kind": kind,
        "shape": shape.name,
        "rows": shape.rows,
        "inputs": shape.inputs,
        "columns": columns,
        "us": round(seconds * 1e6, 2),
        "gb_s": round(moved / seconds / 1e9, 1),
        "percent_of_copy": round(100 * moved / seconds / copy, 1),
    }
