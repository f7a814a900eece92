"""Finds the number of rows up to which each kind of kernel is fastest, for `MatmulTuning`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from gpu.session import Session, copies_for
from gpu.weights import random_weight, repacked

from ingle.kernels.formats.weight import RepackedTensor
from ingle.kernels.matmul.dequantize_rows import DequantizedGemm
from ingle.kernels.matmul.matmul_tuning import MatmulTuning
from ingle.kernels.matmul.quantized_gemm import QuantizedGemm
from ingle.kernels.matmul.quantized_gemv import MOST_COLUMNS, QuantizedGemv

KINDS = ("Q4_K", "Q6_K", "NF4", "Q5_K", "Q8_0", "Q4_0")
ROWS, INPUTS = 14336, 4096
MANY = (64, 128, 256, 512, 1024, 2048)
_NEVER = 1 << 30


def run(session: Session) -> dict[str, object]:
    """Microseconds of each kernel by rows of activations, and the table that follows."""
    library = session.library()
    few, many = QuantizedGemv(library), QuantizedGemm(library, session.device)
    large = DequantizedGemm(library, torch.bfloat16, session.device)
    result: dict[str, Any] = {"few": {}, "many": {}, "skipped": []}
    for kind in KINDS:
        if session.seconds_left < 15:
            result["skipped"].append(f"{kind}: no time was left")
            continue
        size = repacked(random_weight(kind, ROWS, INPUTS, session.device))
        weights = [
            repacked(random_weight(kind, ROWS, INPUTS, session.device, seed))
            for seed in range(copies_for(size.nbytes, most=16))
        ]
        result["few"][kind] = {
            columns: [
                _time(session, weights, columns, lambda w, t, _, out: few.multiply(w, t, out)),
                _time(session, weights, columns, lambda w, t, _, out: many.multiply(w, t, out)),
            ]
            for columns in range(1, MOST_COLUMNS + 1)
        }
        if kind == KINDS[0]:
            result["many"] = {
                columns: [
                    _time(session, weights, columns, lambda w, t, _, out: many.multiply(w, t, out)),
                    _time(session, weights, columns, lambda w, _, x, out: large(x, w, None, out)),
                ]
                for columns in MANY
            }
    table = table_of(result["few"], result["many"])
    result["table"] = {"gemm": table.gemm, "gemv": dict(table.gemv)}
    return result


def table_of(few: dict[str, dict[int, list[float]]], many: dict[int, list[float]]) -> MatmulTuning:
    """The table for times of two ways each, in their order."""
    gemv = {
        kind: max((rows for rows, (one, other) in times.items() if one <= other), default=0)
        for kind, times in few.items()
    }
    as_bytes = [rows for rows, (one, other) in many.items() if one <= other]
    most = max(as_bytes, default=MOST_COLUMNS)
    return MatmulTuning(_NEVER if many and most == max(many) else most, gemv)


def table(result: dict[str, Any]) -> list[str]:
    """Where one gives way to the other."""
    lines = [
        f"{kind}: dp4a up to {result['table']['gemv'][kind]} rows; "
        + ", ".join(f"{rows}: {one:.1f} or {other:.1f} us" for rows, (one, other) in times.items())
        for kind, times in result["few"].items()
    ]
    lines.append(
        f"as bytes up to {result['table']['gemm']} rows; "
        + ", ".join(
            f"{rows}: {one:.0f} or {other:.0f} us" for rows, (one, other) in result["many"].items()
        )
    )
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]


def _time(
    session: Session,
    weights: list[RepackedTensor],
    columns: int,
    multiply: Callable[[RepackedTensor, torch.Tensor, torch.Tensor, torch.Tensor], object],
) -> float:
    """Microseconds of one product."""
    x = torch.randn(columns, INPUTS, device=session.device, dtype=torch.bfloat16)
    tiles = QuantizedGemv(session.library()).quantize(x)
    out = torch.empty(columns, ROWS, device=session.device, dtype=torch.bfloat16)
    launches = [lambda weight=weight: multiply(weight, tiles, x, out) for weight in weights]
    return round(session.time(launches, repeats=5) * 1e6, 2)
