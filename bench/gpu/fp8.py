"""Tests and times products of weights in FP8, beside the same weights in 16 bits on this GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import torch
from gpu.session import Session, copies_for
from gpu.weights import SHAPES, Shape

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.formats.fp8 import dequantize_fp8, quantize_fp8_reference, round_inputs
from ingle.kernels.formats.weight import FP8_BLOCK, FP8Tensor
from ingle.kernels.matmul.dense_gemv import DenseGemv, can_multiply_dense
from ingle.kernels.matmul.fp8_products import FP8Products

Scaling = Literal["tensor", "row", "block"]
SCALINGS: tuple[Scaling, ...] = ("tensor", "row", "block")
COLUMNS = (1, 4, 16, 64, 256, 1024, 4096)
NAMES = ("output of attention", "gate or up", "down")
# Relative in the Euclidean norm: sums are rounded to bfloat16.
TOLERANCE = 5e-3


def wrong_products(session: Session) -> Iterator[str]:
    """Where rounded inputs are not those of torch on a CPU, or products too far from exact ones."""
    products = _products(session)
    for scaling in SCALINGS:
        for columns, inputs in ((1, 512), (5, 1536), (300, 4096)):
            weight = _weight(session, scaling, 256, inputs)
            x = torch.randn(columns, inputs, device=session.device, generator=_random(session))
            name = f"FP8 ({scaling}), {columns} columns of {inputs}"
            group = FP8_BLOCK if scaling == "block" else inputs
            fixed = None if weight.input_scale is None else weight.input_scale.cpu()
            codes, scales = quantize_fp8_reference(x.cpu(), fixed, group=group)
            inputs8 = products.quantize(x, weight)
            found = inputs8.codes.cpu().view(torch.uint8), inputs8.scales.cpu()
            if not (
                torch.equal(found[0], codes.view(torch.uint8)) and torch.equal(found[1], scales)
            ):
                yield f"{name}: rounded inputs"
            if products.product_for(weight) is None:
                continue
            weight = products.prepare(weight)
            exact = round_inputs(x.double(), weight) @ dequantize_fp8(weight, torch.float64).T
            off = (products.multiply(inputs8, weight) - exact).square().sum()
            error = float(off / exact.square().sum()) ** 0.5
            if not error <= TOLERANCE:
                yield f"{name}: error {error:.1e}"


def run(session: Session) -> dict[str, object]:
    """Microseconds by shape and columns, rounding included: of each kind of scales, and 16 bits."""
    products = _products(session)
    rows: list[dict[str, Any]] = []
    skipped = [
        f"FP8 ({each}): torch has no product here"
        for each in SCALINGS
        if not _has(products, session, each)
    ]
    for shape in [shape for shape in SHAPES if shape.name in NAMES]:
        plain = _dense_ways(session, shape)
        fp8 = {
            each: _fp8_ways(session, products, each, shape)
            for each in SCALINGS
            if _has(products, session, each)
        }
        for columns in COLUMNS:
            if session.seconds_left < 15:
                skipped.append(f"{shape.name}: no time was left")
                break
            x = torch.randn(columns, shape.inputs, device=session.device, dtype=torch.bfloat16)
            ways = {"16 bits": plain, **fp8}
            times = {
                name: session.time([partial(each, x) for each in way], repeats=5)
                for name, way in ways.items()
            }
            us = {name: round(seconds * 1e6, 2) for name, seconds in times.items()}
            rows.append({"shape": shape.name, "columns": columns, "us": us})
        torch.cuda.empty_cache()
    return {"products": rows, "has": sorted(products.products), "skipped": skipped}


def table(result: dict[str, Any]) -> list[str]:
    """Return lines for people."""
    lines = [f"products of FP8 here: {', '.join(result['has'])}"]
    for row in result["products"]:
        times = ", ".join(f"{name} {us} us" for name, us in row["us"].items())
        lines.append(f"{row['shape']:<21}{row['columns']:>5} col: {times}")
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]


def _products(session: Session) -> FP8Products:
    """On a GPU before the RTX 40 there are none, but it rounds inputs."""
    return FP8Products(session.library(), torch.bfloat16, session.device)


def _has(products: FP8Products, session: Session, scaling: Scaling) -> bool:
    return products.product_for(_weight(session, scaling, 256, 512)) is not None


def _weight(session: Session, scaling: Scaling, rows: int, inputs: int) -> FP8Tensor:
    """Random weights; with a scale of the matrix they come with one of the inputs."""
    random = _random(session)
    values = torch.randn(rows, inputs, device=session.device, generator=random)
    sizes = {"tensor": (), "row": (rows, 1), "block": (rows // FP8_BLOCK, inputs // FP8_BLOCK)}
    scales = torch.rand(sizes[scaling], device=session.device, generator=random) + 0.1
    fixed = torch.tensor(0.01, device=session.device) if scaling == "tensor" else None
    return FP8Tensor(values.to(torch.float8_e4m3fn), scales, fixed)


def _fp8_ways(
    session: Session, products: FP8Products, scaling: Scaling, shape: Shape
) -> list[Callable[[torch.Tensor], object]]:
    weights = [
        products.prepare(_weight(session, scaling, shape.rows, shape.inputs))
        for _ in range(copies_for(shape.rows * shape.inputs))
    ]

    def multiply(weight: FP8Tensor, x: torch.Tensor) -> object:
        return products.multiply(products.inputs(Activations(shape.inputs, x), weight), weight)

    return [partial(multiply, weight) for weight in weights]


def _dense_ways(session: Session, shape: Shape) -> list[Callable[[torch.Tensor], object]]:
    """As the engine multiplies such weights without FP8."""
    gemv = DenseGemv(session.library())

    def multiply(weight: torch.Tensor, x: torch.Tensor) -> object:
        if not can_multiply_dense(weight, x):
            return torch.nn.functional.linear(x, weight)
        return gemv.multiply(weight, x, x.new_empty(len(x), len(weight)))

    weights = [
        torch.randn(shape.rows, shape.inputs, device=session.device, dtype=torch.bfloat16)
        for _ in range(copies_for(2 * shape.rows * shape.inputs))
    ]
    return [partial(multiply, weight) for weight in weights]


def _random(session: Session) -> torch.Generator:
    return torch.Generator(session.device).manual_seed(1)
