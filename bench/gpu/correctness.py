"""Each kernel on this GPU beside exact arithmetic, in shapes that fit nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from gpu.attention import wrong_attention
from gpu.experts import wrong_experts
from gpu.fp8 import wrong_products as wrong_fp8
from gpu.fusions import wrong_fusions
from gpu.heads import wrong_heads
from gpu.many_columns import wrong_products
from gpu.recurrent import wrong_recurrent_layers
from gpu.rows import wrong_rows
from gpu.sampling import wrong_draws
from gpu.session import Session, Skipped
from gpu.weights import KINDS, random_weight, repacked

from ingle.kernels.elementwise.activations import quantize_q8_reference
from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.weight import NF4Tensor
from ingle.kernels.matmul.dense_gemv import DENSE_VARIANTS, DenseGemv, launch_dense_gated
from ingle.kernels.matmul.linear import GatedLayer
from ingle.kernels.matmul.quantized_gemv import GemvVariant, QuantizedGemv, quantized_gemv_reference

# Relative in the Euclidean norm; NF4's values as one byte or two differ from exact ones.
TOLERANCES = dict.fromkeys(KINDS, 1e-5) | {"NF4": 7e-3, "NF4 exact": 1e-4}
DENSE_TOLERANCE = 1e-5
# Of the mean squared error that quantised activations may cause.
NMSE = 5e-4
SHAPES = [(7, 256), (37, 1280), (130, 2816), (1024, 4096), (515, 14336)]
DTYPES = {torch.float32: 0.0, torch.float16: 1e-3, torch.bfloat16: 8e-3}
# More bytes than 32 bits can count.
HUGE_ROWS, HUGE_INPUTS = 1_000_001, 4096


class Case(NamedTuple):
    """One product."""

    kind: str
    rows: int
    inputs: int
    columns: int
    split: int
    dtype: torch.dtype = torch.float32

    @property
    def name(self) -> str:
        """Return its name in a report."""
        shape = f"{self.rows}x{self.inputs}, {self.columns} columns, split {self.split}"
        return f"{self.kind} {shape}, {str(self.dtype).removeprefix('torch.')}"


def run(session: Session, family: str) -> dict[str, object]:
    """What is wrong in a family of kernels; of products also the largest error of each kind."""
    largest: dict[str, float] = {}
    checks: dict[str, Callable[[Session], Iterator[str]]] = {
        "quantization": _quantization,
        "products": partial(_products, largest=largest),
        "dense": partial(_dense, largest=largest),
        "rows": wrong_rows,
        "attention": wrong_attention,
        "many_columns": wrong_products,
        "fp8": wrong_fp8,
        "experts": wrong_experts,
        "recurrent": wrong_recurrent_layers,
        "heads": wrong_heads,
        "fusions": wrong_fusions,
        "sampling": wrong_draws,
        "huge": _huge,
    }
    failures = list(checks[family](session))
    return {"largest_error": largest, "failures": failures, "ok": not failures}


def table(result: dict[str, Any]) -> list[str]:
    """Return lines for people."""
    lines = [
        f"{kind:<10} largest relative error {error:.1e}"
        for kind, error in result["largest_error"].items()
    ]
    return lines + [f"FAILED {failure}" for failure in result["failures"][:20]]


def cases(session: Session) -> Iterator[Case]:
    """Every kernel once, every shape with some; fewer on a CPU."""
    kinds = [*KINDS, "NF4 exact"]
    for kind in kinds:
        for rows, inputs in SHAPES[:3] if session.on_cpu else SHAPES:
            for columns, split in ((1, 1), (1, 4), (3, 4), (8, 1)):
                yield Case(kind, rows, inputs, columns, split)
        for columns in () if session.on_cpu else range(1, 9):
            for split in (1, 4):
                yield Case(kind, 258, 1536, columns, split)
        for dtype in (torch.float16, torch.bfloat16):
            yield Case(kind, 65, 1536, 2, 1, dtype)


def _products(session: Session, largest: dict[str, float]) -> Iterator[str]:
    gemv = session.gemv()
    for case in cases(session):
        if session.seconds_left < 20:
            yield f"no time was left from {case.name} on"
            return
        error, nmse = _errors(session, gemv, case)
        if case.dtype == torch.float32:
            largest[case.kind] = max(largest.get(case.kind, 0.0), error)
        if not error <= TOLERANCES[case.kind] + DTYPES[case.dtype] or not nmse <= NMSE:
            yield f"{case.name}: error {error:.1e}, NMSE {nmse:.1e}"


def _errors(session: Session, gemv: QuantizedGemv, case: Case) -> tuple[float, float]:
    """To exact sums of the same quantised numbers, and the mean squared one to plain floats."""
    exact = case.kind == "NF4 exact"
    kind = case.kind.split()[0]
    weight = random_weight(kind, case.rows, case.inputs, session.device, seed=case.rows)
    generator = torch.Generator(session.device).manual_seed(case.columns)
    x = torch.randn(case.columns, case.inputs, device=session.device, generator=generator)
    tiles = gemv.quantize(x)
    out = torch.full(
        (case.columns, case.rows), float("nan"), dtype=case.dtype, device=session.device
    )
    variant = GemvVariant(2, case.split)
    gemv.multiply(repacked(weight), tiles, out, variant=variant, exact=exact)
    reference = quantized_gemv_reference(weight, tiles)
    floats = x.double() @ dequantize(weight).double().T
    return _relative(out, reference), _relative(out, floats) ** 2


def _dense(session: Session, largest: dict[str, float]) -> Iterator[str]:
    for name, error in _dense_errors(session):
        largest["16-bit"] = max(largest.get("16-bit", 0.0), error)
        if not error <= DENSE_TOLERANCE:
            yield f"{name}: error {error:.1e}"


def _dense_errors(session: Session) -> Iterator[tuple[str, float]]:
    """Yield products of 16-bit weights, where only sums are rounded, and their errors."""
    gemv = DenseGemv(session.library())
    shapes = [(37, 904, 3), (70, 2072, 9), (1, 8, 16)]
    if not session.on_cpu:
        shapes += [(4096, 14336, 1), (128256, 4096, 8), (1027, 4096, 16)]
    for dtype in (torch.float16, torch.bfloat16):
        for rows, inputs, columns in shapes:
            generator = torch.Generator(session.device).manual_seed(rows)
            weight, x = (
                torch.randn(each, inputs, device=session.device, generator=generator).to(dtype)
                for each in (rows, columns)
            )
            expected = x.double() @ weight.double().T
            for variant in DENSE_VARIANTS:
                out = torch.full((columns, rows), float("nan"), device=session.device)
                gemv.multiply(weight, x, out, variant=variant)
                name = f"{dtype} {rows}x{inputs}, {columns} columns, {variant}"
                yield name, _relative(out, expected)
            layer = GatedLayer(weight, weight, "silu")
            gated = torch.nn.functional.silu(expected) * expected
            for split in (1, 4):
                out = torch.full((columns, rows), float("nan"), device=session.device)
                launch_dense_gated(session.library(), layer, x, out, split=split)
                name = f"{dtype} {rows}x{inputs} gated, {columns} columns, split {split}"
                yield name, _relative(out, gated)


def _quantization(session: Session) -> Iterator[str]:
    """Where bytes or facts are not those of plain torch, bit for bit."""
    gemv = session.gemv()
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for columns, inputs in ((1, 1024), (8, 4096), (3, 14336)):
            x = torch.randn(columns, inputs, generator=torch.Generator().manual_seed(inputs))
            tiles = gemv.quantize(x.to(session.device, dtype)).cpu()
            if not torch.equal(tiles, quantize_q8_reference(x.to(dtype))):
                yield f"{columns}x{inputs}, {dtype}"


def _huge(session: Session) -> Iterator[str]:
    """Rows whose offsets need more than 32 bits."""
    if session.free_memory < 16 << 30:
        raise Skipped("there are less than 16 GiB of free memory")
    gemv = session.gemv()
    weight = random_weight("Q4_K", HUGE_ROWS, HUGE_INPUTS, session.device)
    assert not isinstance(weight, NF4Tensor)
    assert session.on_cpu or weight.nbytes > 1 << 31
    x = torch.randn(1, HUGE_INPUTS, device=session.device)
    tiles = gemv.quantize(x)
    out = torch.full((1, HUGE_ROWS), float("nan"), device=session.device)
    gemv.multiply(repacked(weight), tiles, out)
    for rows in (slice(0, 64), slice(HUGE_ROWS - 64, HUGE_ROWS)):
        expected = quantized_gemv_reference(weight.rows(rows), tiles)
        if not _relative(out[:, rows], expected) <= TOLERANCES["Q4_K"]:
            yield f"rows {rows} of a matrix of more than 2^31 bytes"
    if not bool(out.isfinite().all()):
        yield "a matrix of more than 2^31 bytes has rows without a product"


def _relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    difference = (found.double() - expected) ** 2
    return float(difference.sum().sqrt() / (expected**2).sum().sqrt())
