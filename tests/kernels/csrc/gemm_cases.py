"""Sanitizer cases of the tensor core products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
import torch
from gpu.weights import random_weight, repacked
from numpy.typing import NDArray

from ingle.kernels.elementwise.activations import quantize_q8_reference
from ingle.kernels.matmul.expert_gemm import expert_blocks
from ingle.kernels.matmul.quantized_gemm import GEMM_SHAPES, can_have_few_stages

from .replay import Case

GEMM_DEFINES: Mapping[str, str] = MappingProxyType(
    {
        "GEMM_VARIANTS": "VARIANT(8, 1, 1, 4)",
        "EXPERT_GEMM_VARIANTS": "EXPERT_VARIANT(8, 1, 1, 4)",
        "TWO_STAGES_VARIANTS": "TWO_STAGES(8, 1)",
    }
)
"""The compiled variants: the smallest blocks."""
_ROWS, _INPUTS, _COLUMNS, _WIDE, _BLOCKS = 37, 1280, 11, 8, 3


def _cases(kind: str, inputs: int) -> Sequence[Case]:
    """Return cases with arrays that end at their last byte; three blocks share two output tiles."""
    packed = repacked(random_weight(kind, _ROWS, inputs, torch.device("cpu")))
    generator = torch.Generator().manual_seed(0)
    tiles = quantize_q8_reference(torch.randn(_COLUMNS, inputs, generator=generator))
    partials = np.full(_BLOCKS * 2 * 128 * _WIDE, np.nan, np.float32)
    out, bias = np.full((_COLUMNS, _ROWS), np.nan, np.float32), np.ones(_ROWS, np.float32)
    extra: tuple[NDArray[np.generic], ...] = ()
    if packed.nested is not None:
        nested = packed.nested
        extra = nested.values.numpy(), nested.absmax.numpy(), nested.offset.numpy().reshape(1)
    arguments = (
        *(packed.data.numpy(), tiles.numpy(), partials, np.zeros(_BLOCKS, np.int32)),
        *(_ROWS, inputs, packed.data.shape[1], _COLUMNS),
        *(out, bias, 1.0, _ROWS, 0, *extra),
    )
    name, shape = kind.lower(), GEMM_SHAPES[_WIDE]
    kernels = {f"{name}_gemm_c{_WIDE}": shape}
    if can_have_few_stages(packed, _WIDE):
        kernels[f"{name}_gemm_two_c{_WIDE}"] = shape.few_stages
    grid, block = (_BLOCKS, 1, 1), (shape.threads, 1, 1)
    return [
        Case(kernel, grid, block, arguments, each.shared_bytes(name))
        for kernel, each in kernels.items()
    ]


def _expert_cases(inputs: int) -> Sequence[Case]:
    """Return seven picks of three experts, of which one has none, on blocks that share tiles."""
    experts = 3
    packed = repacked(random_weight("Q4_K", experts * _ROWS, inputs, torch.device("cpu")))
    blocks = expert_blocks(torch.tensor([[2], [0], [2], [2], [0], [2], [2]]), experts, _WIDE)
    columns = len(blocks.tokens)
    generator = torch.Generator().manual_seed(0)
    tiles = quantize_q8_reference(torch.randn(columns, inputs, generator=generator))
    partials = np.full(_BLOCKS * 2 * 128 * _WIDE, np.nan, np.float32)
    out = np.full((columns, _ROWS), np.nan, np.float32)
    bias = np.ones((experts, _ROWS), np.float32)
    arguments = (
        *(packed.data.numpy(), tiles.numpy(), partials, np.zeros(_BLOCKS, np.int32)),
        *(_ROWS, inputs, packed.data.shape[1], columns),
        *(out, bias, 1.0, _ROWS, 0, blocks.experts.numpy()),
    )
    shape = GEMM_SHAPES[_WIDE]
    grid, block = (_BLOCKS, 1, 1), (shape.threads, 1, 1)
    kernel = f"q4_k_expert_gemm_c{_WIDE}"
    return [Case(kernel, grid, block, arguments, shape.shared_bytes("q4_k"))]


GEMM_CASES: Mapping[str, Callable[[], Sequence[Case]]] = MappingProxyType(
    {
        "q4_k_gemm": partial(_cases, "Q4_K", _INPUTS),
        "q6_k_gemm": partial(_cases, "Q6_K", _INPUTS),
        "nf4_gemm": partial(_cases, "NF4", 1088),
        "q5_1_gemm": partial(_cases, "Q5_1", 1120),
        "q8_0_gemm": partial(_cases, "Q8_0", 1120),
        "expert_gemm_q4_k": partial(_expert_cases, _INPUTS),
    }
)
