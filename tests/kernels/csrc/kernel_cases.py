"""Launches of every source's kernels; arrays end where their data ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from gpu.primitives import PRIMITIVES, random_input
from numpy.typing import NDArray

from ingle.kernels.build.kernel_source import NO_DEFINES, kernel_source
from ingle.kernels.elementwise.activations import quantize_q8_reference
from ingle.kernels.formats.codecs import PACKERS
from ingle.kernels.formats.nf4 import quantize_nf4
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.formats.weight_format import WEIGHT_FORMATS

from .attention_cases import ATTENTION_CASES
from .dense_gemv_cases import dense_gated_cases, dense_gemv_cases
from .dequantize_rows_cases import dequantize_rows_cases
from .fusion_cases import FUSION_CASES
from .gemm_cases import GEMM_CASES, GEMM_DEFINES
from .replay import Case
from .sampling_cases import SAMPLING_CASES

MakeQuantized = Callable[..., QuantizedTensor]
FEW = {
    "GEMV_VARIANTS": "VARIANT(2, 3, 1) VARIANT(2, 3, 4)",
    "GATED_VARIANTS": "GATED(3, 1) GATED(3, 4)",
}
COLUMNS, INPUTS, ROWS = 3, 1280, 5
CASES = {
    **ATTENTION_CASES,
    **FUSION_CASES,
    **GEMM_CASES,
    **SAMPLING_CASES,
    "dequantize_rows": dequantize_rows_cases,
    "dense_gemv": dense_gemv_cases,
    "dense_gated": dense_gated_cases,
}
PRODUCTS = [*sorted({WEIGHT_FORMATS[kind].kernel for kind in PACKERS}), "nf4"]
NAMES = [*PRODUCTS, "quantize_q8", "conformance", *CASES]


def gemv_cases(name: str, make_quantized: MakeQuantized) -> list[Case]:
    """Return cases with arrays that end at their last byte, so that accesses past it are seen."""
    inputs = INPUTS if name[-1] == "k" or name in ("nf4", "g4") else INPUTS + 32
    x = torch.randn(COLUMNS, inputs, generator=torch.Generator().manual_seed(0))
    tiles = quantize_q8_reference(x).numpy()
    extra: tuple[NDArray[np.generic] | int, ...] = ()
    if name == "nf4":
        packed = repack(quantize_nf4(torch.randn(ROWS, inputs)))
        nested = packed.nested
        assert nested is not None
        extra = nested.values.numpy(), nested.absmax.numpy(), nested.offset.numpy().reshape(1)
        data = packed.data
    elif name == "g4":
        extra = (64,)
        data = repack(make_quantized("G4_64", ROWS, inputs, tame=True)).data
    else:
        data = repack(make_quantized(name.upper(), ROWS, inputs, tame=True)).data
    out = np.full((COLUMNS, ROWS), np.nan, np.float32)
    bias = np.ones(ROWS, np.float32)
    sizes = ROWS, inputs, data.shape[1]
    arguments = (data.numpy(), tiles, *sizes, out, bias, 1.0, ROWS, 0, *extra)
    return [
        Case(
            f"{name}_gemv_r2_c3_s{split}", (-(-ROWS // (8 // split)), 1, 1), (128, 1, 1), arguments
        )
        for split in (1, 4)
    ]


def kernel_cases(
    name: str, make_quantized: MakeQuantized
) -> tuple[Sequence[Case], Mapping[str, str]]:
    """Return the launches of a source, and the macros to compile it with."""
    defines: Mapping[str, str] = FEW
    if name == "quantize_q8":
        x, tiles = np.ones((2, 288), np.float16), np.zeros((1, 2, 1536), np.uint8)
        cases: Sequence[Case] = [Case("quantize_q8", (2, 1, 1), (128, 1, 1), (x, tiles, 288, 1))]
    elif name == "conformance":
        cases = [
            Case(
                f"conform_{each.name}",
                (2, 1, 1),
                (32, 1, 1),
                (random_input(each, 2, seed=0), np.zeros((2, each.outputs, 32), np.uint32)),
            )
            for each in PRIMITIVES
        ]
    elif name in CASES:
        cases = CASES[name]()
    else:
        cases = gemv_cases(name, make_quantized)
    if name in GEMM_CASES:
        defines = GEMM_DEFINES
    elif "GEMV_VARIANTS" not in kernel_source(f"{name}.cuh"):
        defines = NO_DEFINES
    return cases, defines
