"""Rows of weights as numbers, and the products with many rows that go through them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from gpu.session import Session
from gpu.weights import KINDS, random_weight, repacked

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.matmul.dequantize_rows import DequantizedGemm, DequantizeRows

SHAPES = ((7, 1280), (130, 2816), (515, 14336))
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# A layer's largest matrix, and rows of activations from too few on for this way of multiplying.
ROWS, INPUTS = 14336, 4096
TOKENS = (256, 512, 1024, 4096)


def wrong_rows(session: Session) -> Iterator[str]:
    """Where a kernel's values are not those of plain torch, bit for bit."""
    operation = DequantizeRows(session.library())
    for kind in KINDS:
        for rows, inputs in SHAPES[:1] if session.on_cpu else SHAPES:
            weight = random_weight(kind, rows, inputs, session.device, seed=rows)
            values, packed = dequantize(weight), repacked(weight)
            ids = torch.tensor([rows - 1, 0, -1, rows, 3], device=session.device)
            for dtype in DTYPES:
                what = f"{kind} {rows}x{inputs}, {str(dtype).removeprefix('torch.')}"
                out = torch.full((rows - 2, inputs), torch.nan, dtype=dtype, device=session.device)
                if not torch.equal(operation.following(packed, 1, out), values[1:-1].to(dtype)):
                    yield f"rows of {what}"
                found = operation.gather(packed, ids, scale=0.7, dtype=dtype)
                expected = values[ids.clamp(0, rows - 1)] * torch.tensor(0.7)
                expected[2:4] = 0
                if not torch.equal(found, expected.to(dtype)):
                    yield f"rows by id of {what}"


def rows_rates(session: Session) -> dict[str, float]:
    """GB/s, read and written, of a matrix that becomes bfloat16, by kind."""
    operation, rates = DequantizeRows(session.library()), dict[str, float]()
    # Including the output, more than a cache holds.
    outs = [
        torch.empty(ROWS, INPUTS, dtype=torch.bfloat16, device=session.device) for _ in range(4)
    ]
    for kind in KINDS:
        packed = repacked(random_weight(kind, ROWS, INPUTS, session.device))
        seconds = session.time([partial(operation.following, packed, 0, out) for out in outs])
        rates[kind] = round((packed.nbytes + outs[0].nbytes) / seconds / 1e9, 1)
    return rates


def large_products(session: Session) -> list[dict[str, Any]]:
    """Milliseconds of products with many rows, beside those with plain bfloat16 weights."""
    large = DequantizedGemm(session.library(), torch.bfloat16, session.device)
    packed = repacked(random_weight("Q4_K", ROWS, INPUTS, session.device))
    plain = torch.randn(ROWS, INPUTS, dtype=torch.bfloat16, device=session.device)
    rows: list[dict[str, Any]] = []
    for tokens in TOKENS:
        x = torch.randn(tokens, INPUTS, dtype=torch.bfloat16, device=session.device)
        out = torch.empty(tokens, ROWS, dtype=torch.bfloat16, device=session.device)
        through = session.time([partial(large, x, packed, None, out)] * 4)
        direct = session.time([partial(torch.mm, x, plain.T, out=out)] * 4)
        rows.append(
            {
                "tokens": tokens,
                "q4_k_ms": round(through * 1e3, 3),
                "bfloat16_ms": round(direct * 1e3, 3),
                "tflops": round(2 * tokens * ROWS * INPUTS / through / 1e12, 1),
            }
        )
    return rows
