"""Random inputs for the primitives of the kernels, and how their results are compared."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_void_p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingle.kernels.launch.cuda_driver import Argument

Words = NDArray[np.uint32]

# For a product of floats, whose order of summation is the hardware's: the difference over the sum
# of magnitudes. A wrong element exceeds this by orders of magnitude.
FLOAT_TOLERANCE = 2e-6
# Of functions that a GPU approximates.
NEAR = 3e-5


class Primitive(NamedTuple):
    """A kernel `conform_<name>`, its words per lane, and the `kind` of words.

    `bits` are any; `half` and `bf16` are pairs of moderate floats, so that sums stay finite.
    Results of `near` are floats that need not be the same bits.
    """

    name: str
    inputs: int
    outputs: int
    kind: str = "bits"


PRIMITIVES: Sequence[Primitive] = (
    Primitive("permute_bytes", 3, 1),
    Primitive("funnel_shift_right", 3, 1),
    Primitive("funnel_shift_left", 3, 1),
    Primitive("select_bits", 3, 1),
    Primitive("wide_integers", 4, 3),
    Primitive("dp4a_us", 3, 1),
    Primitive("dp4a_ss", 3, 1),
    Primitive("dp2a_low", 3, 1),
    Primitive("dp2a_high", 3, 1),
    Primitive("half_to_float", 1, 1, "to float"),
    Primitive("bf16_to_float", 1, 1, "to float"),
    Primitive("float_to_half", 1, 1),
    Primitive("float_to_bf16", 1, 1),
    Primitive("round_to_int", 1, 1),
    Primitive("max_or_nan", 2, 1, "to float"),
    Primitive("rounded", 3, 1, "to float"),
    Primitive("logistic", 1, 1, "near"),
    Primitive("shuffle", 2, 1),
    Primitive("shuffle_xor", 1, 5),
    Primitive("shuffle_up_down", 1, 4),
    Primitive("ballot", 1, 2),
    Primitive("sum_over_lanes_1", 1, 1),
    Primitive("sum_over_lanes_16", 16, 1),
    Primitive("over_lanes", 1, 2),
    Primitive("loads", 4, 13),
    Primitive("memory", 2, 6),
    Primitive("copy_async", 8, 8),
    Primitive("copy_async_few", 3, 7),
    Primitive("load_matrix", 4, 8),
    Primitive("mma_u8s8", 10, 4),
    Primitive("mma_s8s8", 10, 4),
    Primitive("mma_onto", 10, 16),
    Primitive("mma_f16", 10, 4, "half"),
    Primitive("mma_bf16", 10, 4, "bf16"),
)


def random_input(primitive: Primitive, warps: int, seed: int) -> Words:
    """Words (warps, inputs, 32)."""
    random = np.random.default_rng(seed)
    shape = (warps, primitive.inputs, 32)
    words = random.integers(0, 1 << 32, shape, dtype=np.uint32)
    if primitive.kind in ("half", "bf16"):
        pairs = random.normal(0, 1, (warps, 6, 32, 2)).astype(np.float32)
        words[:, :6] = _packed(pairs, primitive.kind)
        words[:, 6:] = random.normal(0, 1, (warps, 4, 32)).astype(np.float32).view(np.uint32)
        return words
    # Of random floats few are near the edges of smaller types: some are made so.
    edges = random.normal(0, 1, shape) * 10.0 ** random.integers(-9, 11, shape)
    small = edges.astype(np.float32).view(np.uint32)
    return np.where(random.random(shape) < 0.5, small, words).astype(np.uint32)


def arguments(words: int, results: int) -> tuple[Argument, ...]:
    """Of every conformance kernel: the addresses of its input and its output."""
    return c_void_p(words), c_void_p(results)


def differences(primitive: Primitive, found: Words, expected: Words, given: Words) -> int:
    """How many words of the results (warps, outputs, 32) are wrong."""
    if primitive.kind in ("half", "bf16"):
        bound = FLOAT_TOLERANCE * _magnitudes(given, primitive.kind)
        error = np.abs(found.view(np.float32).astype(float) - expected.view(np.float32))
        return int(np.count_nonzero(~(error <= bound)))
    if primitive.kind == "near":
        close = np.isclose(
            found.view(np.float32), expected.view(np.float32), NEAR, 1.2e-38, equal_nan=True
        )
        return int(np.count_nonzero(~close))
    if primitive.kind == "to float":
        both_nan = np.isnan(found.view(np.float32)) & np.isnan(expected.view(np.float32))
        return int(np.count_nonzero((found != expected) & ~both_nan))
    return int(np.count_nonzero(found != expected))


def matrices(given: Words, kind: str) -> tuple[NDArray[np.float64], ...]:
    """The a (warps, 16, 16), b (warps, 8, 16) and c (warps, 16, 8) that fragments stand for."""
    warps = len(given)
    values = _unpacked(given[:, :6], kind).reshape(warps, 6, 8, 4, 2)
    a, b = np.empty((warps, 16, 16)), np.empty((warps, 8, 16))
    for half in range(2):  # of the inner dimension: words 2 t and 2 t + 1 of lane t
        columns = slice(8 * half, 8 * half + 8)
        a[:, :8, columns] = values[:, 2 * half].reshape(warps, 8, 8)
        a[:, 8:, columns] = values[:, 2 * half + 1].reshape(warps, 8, 8)
        b[:, :, columns] = values[:, 4 + half].reshape(warps, 8, 8)
    return a, b, result(given[:, 6:])


def result(fragments: Words) -> NDArray[np.float64]:
    """The matrix (warps, 16, 8) of float fragments (warps, 4, 32)."""
    values = fragments.view(np.float32).astype(float).reshape(len(fragments), 2, 2, 8, 4)
    return values.transpose(0, 1, 3, 4, 2).reshape(len(fragments), 16, 8)


def _magnitudes(given: Words, kind: str) -> NDArray[np.float64]:
    a, b, c = (np.abs(matrix) for matrix in matrices(given, kind))
    sums = a @ b.transpose(0, 2, 1) + c
    return sums.reshape(-1, 2, 8, 4, 2).transpose(0, 1, 4, 2, 3).reshape(-1, 4, 32)


def _packed(pairs: NDArray[np.float32], kind: str) -> Words:
    if kind == "half":
        return pairs.astype(np.float16).view(np.uint32)[..., 0]
    return np.ascontiguousarray(pairs.view(np.uint16)[..., 1::2]).view(np.uint32)[..., 0]


def _unpacked(words: Words, kind: str) -> NDArray[np.float64]:
    halves = np.ascontiguousarray(words)[..., None].view(np.uint16)
    if kind == "half":
        return halves.view(np.float16).astype(float)
    return (halves.astype(np.uint32) << 16).view(np.float32).astype(float)
