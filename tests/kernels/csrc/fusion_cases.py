"""Sanitizer cases of norms and gates; arrays end where their data ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray

from ingle.kernels.elementwise.activations import quantize_q8_reference
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import QuantizedTensor

from .replay import Case

TOKENS = 3


def rms_norm_cases() -> list[Case]:
    """Return both norms in each variant, with sizes that fill no block and no tile."""
    return [_rms_norm(*each) for each in ((1, 1056, 288), (2, 2080, 288), (4, 4128, 288))]


def _rms_norm(vectors: int, size: int, threads: int) -> Case:
    residual, weights = np.ones((TOKENS, size), np.float32), np.ones((2, size), np.float32)
    addend = np.arange(TOKENS * size, dtype=np.float16).reshape(TOKENS, size) / np.float16(512)
    dense, tiles = np.zeros((TOKENS, size), np.uint16), _room(TOKENS, size)
    arguments = (
        *(residual, weights[0].copy(), addend, weights[1].copy(), dense, tiles),
        *(size, 0, size, 1, 2, size, 1e-5),
    )
    return Case(f"rms_norm_v{vectors}", (TOKENS, 1, 1), (threads, 1, 1), arguments)


def quantize_fp8_cases() -> list[Case]:
    """Return all kernels, for rows that fill no block."""
    x = np.linspace(-3, 3, TOKENS * 1152, dtype=np.float16).reshape(TOKENS, 1152)
    codes, fixed = np.zeros((TOKENS, 1152), np.uint8), np.ones(1, np.float32)
    block = (256, 1, 1)
    rows, groups = np.zeros(TOKENS, np.float32), np.zeros((9, TOKENS), np.float32)
    return [
        Case("quantize_fp8_rows", (TOKENS, 1, 1), block, (x, codes, rows, 1152, 1)),
        Case("quantize_fp8_fixed", (TOKENS, 2, 1), block, (x, codes, fixed, 1152, 1)),
        Case("quantize_fp8_groups", (TOKENS, 2, 1), block, (x, codes, groups, 1152, 1)),
    ]


def gated_activation_cases() -> list[Case]:
    """Return both activations of halves of wider rows."""
    size = 544
    both = np.random.default_rng(0).normal(size=(TOKENS, 2 * size)).astype(np.float32)
    gate, up = both[:, :size].copy(), both[:, size:].copy()
    results = np.zeros((TOKENS, size), np.uint16), _room(TOKENS, size)
    return [
        Case(
            "gated_activation",
            (TOKENS, 2, 1),
            (128, 1, 1),
            (gate, up, *results, size, size, 0, 1, size, activation),
        )
        for activation in (0, 1)
    ]


def gated_gemv_cases() -> list[Case]:
    """Return two groups of outputs, by one warp per row and by four."""
    rows, inputs = 64, 1280
    blocks = np.random.default_rng(1).integers(0, 256, (2, rows * 5, 144), dtype=np.uint8)
    blocks[:, :, :4] = np.full(2, 0.01, np.float16).view(np.uint8)
    gate, up = (
        repack(QuantizedTensor("Q4_K", torch.as_tensor(each).view(rows, -1), inputs)).data.numpy()
        for each in blocks
    )
    x = torch.randn(TOKENS, inputs, generator=torch.Generator().manual_seed(0))
    bias = np.ones(rows, np.float32)
    arguments = (
        *(gate, up, quantize_q8_reference(x).numpy(), bias, bias),
        *(np.zeros((TOKENS, rows), np.uint16), _room(TOKENS, rows)),
        *(np.full((TOKENS, rows), np.nan, np.float32), np.zeros(rows // 32, np.uint32)),
        *(rows, inputs, gate.shape[1], 2, 0),
    )
    return [
        Case(f"q4_k_gated_c3_s{split}", (rows * split // 4, 1, 1), (128, 1, 1), arguments)
        for split in (1, 4)
    ]


def normed_gemv_cases() -> list[Case]:
    """Return products added to two rows of sums, and the norms of these."""
    rows, inputs = 96, 1280
    blocks = np.random.default_rng(1).integers(0, 256, (rows * 5, 144), dtype=np.uint8)
    blocks[:, :4] = np.full(2, 0.01, np.float16).view(np.uint8)
    data = repack(QuantizedTensor("Q4_K", torch.as_tensor(blocks).view(rows, -1), inputs))
    x = torch.randn(2, inputs, generator=torch.Generator().manual_seed(0))
    ones, weights = np.ones(rows, np.float32), data.data.numpy()
    arguments = (
        *(weights, quantize_q8_reference(x).numpy(), rows, inputs, weights.shape[1]),
        *(np.ones((2, rows), np.float32), ones, 0.5, rows, 3),
        *(ones, np.zeros((2, rows), np.uint16), _room(2, rows), np.zeros(1, np.uint32)),
        *(2, 32, 1, 1e-5),
    )
    return [
        Case(f"q4_k_normed_c2_s{split}", (rows * split // 8, 1, 1), (128, 1, 1), arguments)
        for split in (1, 4)
    ]


def expert_gemv_cases() -> list[Case]:
    """Return two tokens by two of three experts each, the last one among them."""
    experts, rows, inputs = 3, 5, 1280
    blocks = np.random.default_rng(1).integers(0, 256, (experts * rows * 5, 144), dtype=np.uint8)
    blocks[:, :4] = np.full(2, 0.01, np.float16).view(np.uint8)
    weights = QuantizedTensor("Q4_K", torch.as_tensor(blocks).view(experts * rows, -1), inputs)
    data = repack(weights).data.numpy()
    x = torch.randn(2, inputs, generator=torch.Generator().manual_seed(0))
    tiles = quantize_q8_reference(x).transpose(0, 1).contiguous().numpy()
    picked = np.array([[2, 0], [1, 2]], np.int64)
    bias, out = np.ones((experts, rows), np.float32), np.full((4, rows), np.nan, np.float32)
    arguments = (data, tiles, picked, bias, out, rows, inputs, data.shape[1], 2)
    return [
        Case(f"q4_k_experts_s{split}", (-(-rows // (8 // split)), 4, 1), (128, 1, 1), arguments)
        for split in (1, 4)
    ]


def expert_picks_cases() -> list[Case]:
    """Return picks of an expert that fill more than a block, of one none; and two sums."""
    picked = np.array([[2, 0]] * 9, np.int64)
    most = 18 // 8 + 3
    experts, tokens = np.zeros(1 + most, np.int32), np.zeros(most * 8, np.int64)
    rows, weights = np.zeros((9, 2), np.int64), np.ones((2, 2), np.float32)
    products = np.ones((4, 1040), np.float32)
    places, out = np.array([[3, 0], [1, 2]], np.int64), np.zeros((2, 1040), np.float32)
    return [
        Case(
            "sort_picks", (1, 1, 1), (256, 1, 1), (picked, experts, tokens, rows, 18, 2, 3, 8, most)
        ),
        Case("sum_picks", (2, 2, 1), (256, 1, 1), (products, places, weights, out, 2, 1040, 1)),
    ]


def _normal(*size: int) -> NDArray[np.float32]:
    return np.random.default_rng(sum(size)).normal(size=size).astype(np.float32)


def _recurrent_step() -> list[NDArray[np.int32]]:
    """A sequence of more tokens than are staged, one without any, and one with one, in 4 rows."""
    numbers = [0, 17, 17, 18], [-1, 3, 1], [0, 3, 4, 5], [4, 17, 17, 1, 1], [0, 2, 3, 3, 1]
    return [np.array(each, np.int32) for each in numbers]


def causal_convolution_cases() -> list[Case]:
    """Return 18 tokens of three sequences, by both kernels."""
    channels, tokens, steps = 256, 18, _recurrent_step()
    x, weights, bias = _normal(tokens, channels), _normal(channels, 4), _normal(channels)
    silu = (
        x,
        weights,
        bias,
        _normal(4, channels, 3),
        *steps,
        np.zeros_like(x),
        channels,
        0,
        channels,
    )
    thirds, dense = _normal(tokens, 3 * channels), np.zeros((tokens, channels), np.uint16)
    gated = (
        *(thirds, _normal(channels, 3), bias, _normal(4, channels, 2), *steps, dense),
        *(_room(tokens, channels), 3 * channels, 0, 2, channels, tokens),
    )
    return [
        Case("convolve_silu", (channels // 128, 3, 1), (128, 1, 1), silu),
        Case("convolve_gated", (channels // 128, 3, 1), (32, 1, 1), gated),
    ]


def gated_delta_cases() -> list[Case]:
    """Return 18 tokens of three sequences."""
    keys, heads, tokens = 1, 2, 18
    channels, width = 128 * (2 * keys + heads), 128 * heads
    mixed, found, weight = _normal(tokens, channels), _normal(tokens, width), _normal(128)
    dense, gate = np.zeros((tokens, width), np.uint16), _normal(tokens, width)
    advance = (
        *(mixed, _normal(tokens, heads), _normal(tokens, heads), -abs(_normal(heads))),
        *(_normal(heads), _normal(4, heads, 128, 128), *_recurrent_step(), found),
        *(keys, heads, 1, heads, heads, 0),
    )
    gates = found, gate, weight, dense, _room(tokens, width), width, 0, 2, heads, 1e-6
    block = (128, 1, 1)
    return [
        Case("gated_delta", (4, heads, 3), block, advance),
        Case("gate_heads", (tokens, 1, 1), block, gates),
    ]


def state_space_cases() -> list[Case]:
    """Return 18 tokens of three sequences; the last columns of heads of 80 elements are no whole
    block.
    """
    heads, size, groups, tokens = 4, 80, 2, 18
    width, block = heads * size, (128, 1, 1)
    cases: list[Case] = []
    for state in (128, 256):
        advance = (
            *(_normal(tokens, width + 2 * groups * state), _normal(tokens, heads)),
            *(-abs(_normal(heads)), _normal(heads), _normal(heads)),
            *(_normal(4, heads, state, size), *_recurrent_step(), _normal(tokens, width)),
            *(heads, size, groups, heads),
        )
        cases.append(Case(f"state_space_{state}", (3, heads, 3), block, advance))
    dense = np.zeros((tokens, width), np.uint16)
    norm = _normal(tokens, width), _normal(tokens, width), _normal(width), dense
    for vectors, threads in ((1, 64), (2, 32), (4, 32)):
        numbers = width, 2, width // groups, 1e-5
        arguments = *norm, _room(tokens, width), *numbers
        cases.append(
            Case(f"norm_groups_v{vectors}", (tokens, groups, 1), (threads, 1, 1), arguments)
        )
    return cases


def _room(columns: int, size: int) -> NDArray[np.uint8]:
    return np.zeros((-(-size // 1024), columns, 1536), np.uint8)


FUSION_CASES: Mapping[str, Callable[[], list[Case]]] = MappingProxyType(
    {
        "rms_norm": rms_norm_cases,
        "quantize_fp8": quantize_fp8_cases,
        "gated_activation": gated_activation_cases,
        "gated_q4_k": gated_gemv_cases,
        "normed_q4_k": normed_gemv_cases,
        "expert_picks": expert_picks_cases,
        "experts_q4_k": expert_gemv_cases,
        "causal_convolution": causal_convolution_cases,
        "gated_delta": gated_delta_cases,
        "state_space": state_space_cases,
    }
)
"""By the names of sources."""
