"""C++ emulations of GPU instructions against independent numpy implementations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gpu.primitives import (
    PRIMITIVES,
    Primitive,
    Words,
    arguments,
    differences,
    matrices,
    random_input,
    result,
)
from kernel_harness.host_build import HostModule

from ingle.kernels.build.kernel_source import CSRC

LoadHost = Callable[..., HostModule]
WARPS = 64


def by_name(name: str) -> Primitive:
    return next(primitive for primitive in PRIMITIVES if primitive.name == name)


def run(module: HostModule, primitive: Primitive, given: Words) -> Words:
    found = np.zeros((len(given), primitive.outputs, 32), np.uint32)
    module.launch(
        f"conform_{primitive.name}",
        (len(given), 1, 1),
        (32, 1, 1),
        arguments(given.ctypes.data, found.ctypes.data),
    )
    return found


def bytes_of(words: Words, *, signed: bool) -> np.ndarray:
    """Return the four bytes of each word on a new last axis."""
    raw = np.ascontiguousarray(words)[..., None].view(np.int8 if signed else np.uint8)
    return raw.astype(np.int64)


def halves_of(words: Words) -> np.ndarray:
    return np.ascontiguousarray(words)[..., None].view(np.int16).astype(np.int64)


def floats_of(words: Words) -> np.ndarray:
    return np.ascontiguousarray(words).view(np.float32)


def permuted(given: Words) -> np.ndarray:
    joined = given[:, 1].astype(np.uint64) << np.uint64(32) | given[:, 0]
    out = np.zeros_like(given[:, 0])
    for place in range(4):
        nibble = given[:, 2] >> np.uint32(4 * place) & np.uint32(15)
        byte = (joined >> (np.uint64(8) * (nibble & np.uint32(7)))).astype(np.uint8)
        filled = np.where(byte >> 7, 255, 0).astype(np.uint8)
        out |= np.where(nibble & 8, filled, byte).astype(np.uint32) << np.uint32(8 * place)
    return out


def shifted(given: Words, *, left: bool) -> np.ndarray:
    joined = given[:, 1].astype(np.uint64) << np.uint64(32) | given[:, 0]
    amount = (given[:, 2] & np.uint32(31)).astype(np.uint64)
    return (joined << amount >> np.uint64(32) if left else joined >> amount).astype(np.uint32)


def dot(given: Words, *, signed: bool) -> np.ndarray:
    products = bytes_of(given[:, 0], signed=signed) * bytes_of(given[:, 1], signed=True)
    return (products.sum(-1) + given[:, 2]).astype(np.uint32)


def dot_of_halves(given: Words, *, high: bool) -> np.ndarray:
    some = (
        bytes_of(given[:, 1], signed=True)[..., 2:]
        if high
        else bytes_of(given[:, 1], signed=True)[..., :2]
    )
    return ((halves_of(given[:, 0]) * some).sum(-1) + given[:, 2]).astype(np.uint32)


def rounded(given: Words) -> np.ndarray:
    values = np.rint(np.nan_to_num(floats_of(given[:, 0]), nan=0).astype(float))
    return values.clip(-(2**31), 2**31 - 1).astype(np.int32).view(np.uint32)


def selected(given: Words) -> np.ndarray:
    return given[:, 0] & given[:, 2] | given[:, 1] & ~given[:, 2]


def wide(given: Words) -> np.ndarray:
    """Return the words of 64-bit products, and population counts."""
    out: list[list[int]] = []
    for a, b, c, d in given.transpose(0, 2, 1).reshape(-1, 4).tolist():
        product = (a << 32 | b) * (c << 32 | d) >> 64
        zeros = 64 - ((a << 32 | b) >> (c & 63)).bit_length()
        low = (d | 1 << 31) & -(d | 1 << 31)
        out.append([product & 0xFFFFFFFF, product >> 32, zeros * 64 + low.bit_length() - 1])
    return np.array(out, np.uint32).reshape(len(given), 32, 3).transpose(0, 2, 1)


EXACT: dict[str, Callable[[Words], np.ndarray]] = {
    "permute_bytes": permuted,
    "funnel_shift_right": lambda given: shifted(given, left=False),
    "funnel_shift_left": lambda given: shifted(given, left=True),
    "select_bits": selected,
    "dp4a_us": lambda given: dot(given, signed=False),
    "dp4a_ss": lambda given: dot(given, signed=True),
    "dp2a_low": lambda given: dot_of_halves(given, high=False),
    "dp2a_high": lambda given: dot_of_halves(given, high=True),
    "round_to_int": rounded,
}


@pytest.fixture(scope="module")
def module(load_host: LoadHost) -> HostModule:
    return load_host("conformance.cuh", seed=1)


@pytest.mark.parametrize("name", EXACT)
def test_integer_instructions(module: HostModule, name: str) -> None:
    given = random_input(by_name(name), WARPS, seed=0)
    assert (run(module, by_name(name), given)[:, 0] == EXACT[name](given)).all()


def test_wide_integer_instructions(module: HostModule) -> None:
    given = random_input(by_name("wide_integers"), WARPS, seed=0)
    assert (run(module, by_name("wide_integers"), given) == wide(given)).all()


def test_warp_instructions(module: HostModule) -> None:
    given = random_input(by_name("over_lanes"), WARPS, seed=0)
    found = run(module, by_name("over_lanes"), given)
    assert (found[:, 0] == given[:, 0].max(-1, keepdims=True)).all()
    assert (found[:, 1] == given[:, 0].sum(-1, keepdims=True, dtype=np.uint32)).all()


def test_every_half_converts_to_float(module: HostModule) -> None:
    given = np.arange(1 << 16, dtype=np.uint32).reshape(-1, 1, 32)
    found = floats_of(run(module, by_name("half_to_float"), given)).ravel()
    expected = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    assert np.array_equal(found, expected, equal_nan=True)
    found = floats_of(run(module, by_name("bf16_to_float"), given)).ravel()
    assert np.array_equal(found, floats_of(given.ravel() << np.uint32(16)), equal_nan=True)


def test_float_to_half_rounds_to_nearest(module: HostModule) -> None:
    primitive = by_name("float_to_half")
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = (halves[1:] + halves[:-1]) / 2  # ties, and their neighbours
    edges = np.concatenate(
        [halves[1:], between, np.nextafter(between, 0), np.nextafter(between, 9e9)]
    )
    given = (
        np.concatenate([edges, -edges])[: len(edges) * 2 // 32 * 32]
        .view(np.uint32)
        .reshape(-1, 1, 32)
    )
    given = np.concatenate([given, random_input(primitive, WARPS, seed=1)])
    found = run(module, primitive, given).astype(np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        expected = floats_of(given).astype(np.float16)
    assert np.array_equal(found, expected, equal_nan=True)


def test_float_to_bfloat16_rounds_to_nearest(module: HostModule) -> None:
    primitive = by_name("float_to_bf16")
    given = random_input(primitive, WARPS, seed=2)
    given[0, 0, :4] = (0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800001)  # ties, infinity, NaN
    found = run(module, primitive, given)
    # Round to nearest, ties to even, in exact integer arithmetic.
    low, high = given & np.uint32(0xFFFF), given >> np.uint32(16)
    up = (low > 0x8000) | ((low == 0x8000) & (high & 1 == 1))
    expected = np.where(np.isnan(floats_of(given)), 0x7FFF, high + up)
    assert (found == expected).all()
    assert found[0, 0, :4].tolist() == [0x3F80, 0x3F82, 0x7F80, 0x7FFF]


def test_max_propagates_nan(module: HostModule) -> None:
    given = random_input(by_name("max_or_nan"), WARPS, seed=3)
    given[0, 0, :3], given[0, 1, :3] = (0x7FC00000, 1, 0x80000000), (1, 0x7FC00000, 0)
    found = floats_of(run(module, by_name("max_or_nan"), given)[:, 0])
    a, b = floats_of(given[:, 0]), floats_of(given[:, 1])
    assert np.array_equal(found, np.maximum(a, b), equal_nan=True)
    assert not np.signbit(found[0, 2])


def test_multiply_and_add_round_separately(module: HostModule) -> None:
    given = random_input(by_name("rounded"), WARPS, seed=12)
    given[0, :, 0] = np.array([4097, 4097, -(2.0**24)], np.float32).view(np.uint32)
    a, b, c = (floats_of(given[:, i]) for i in range(3))
    with np.errstate(all="ignore"):
        expected = a * b + c
    found = floats_of(run(module, by_name("rounded"), given)[:, 0])
    assert np.array_equal(found, expected, equal_nan=True)
    assert found[0, 0] == 8192  # a fused one would give 8193


def test_shuffles_and_votes(module: HostModule) -> None:
    lanes = np.arange(32)
    given = random_input(by_name("shuffle"), WARPS, seed=4)
    found = run(module, by_name("shuffle"), given)[:, 0]
    assert (found == np.take_along_axis(given[:, 0], given[:, 1].astype(int) & 31, 1)).all()
    words = np.ascontiguousarray(given[:, :1])
    found = run(module, by_name("shuffle_xor"), words)
    for i in range(5):
        assert (found[:, i] == words[:, 0, lanes ^ (1 << i)]).all()
    found = run(module, by_name("shuffle_up_down"), words)
    sources = [lanes - 1, lanes - 7, lanes + 1, lanes + 19]
    for i, source in enumerate(sources):
        inside = np.where((source >= 0) & (source < 32), source, lanes)
        assert (found[:, i] == words[:, 0, inside]).all()
    found = run(module, by_name("ballot"), words)
    powers = np.uint64(1) << lanes.astype(np.uint64)
    assert (found[:, 0, 0] == ((words[:, 0] & np.uint32(1)) * powers).sum(-1)).all()
    votes = (words[:, 0] >> np.uint32(1) & np.uint32(1)) * powers
    assert (found[:, 1, 0] == votes[:, :16].sum(-1)).all()
    assert (found[:, 1, 31] == votes[:, 16:].sum(-1)).all()


@pytest.mark.parametrize("count", [1, 16])
def test_warp_sums(module: HostModule, count: int) -> None:
    primitive = by_name(f"sum_over_lanes_{count}")
    given = random_input(primitive, WARPS, seed=5)
    values = (given.view(np.int32) >> 12).astype(float).sum(-1)  # (warps, count), exact
    found = floats_of(run(module, primitive, given)[:, 0])
    expected = np.repeat(values, 32 // count, axis=1)
    assert np.abs(found - expected).max() < 1e-6 * 2**19 * 32


def test_loads_and_copies(module: HostModule) -> None:
    given = random_input(by_name("loads"), WARPS, seed=6)
    flat = given.reshape(WARPS, -1, 4)[:, np.arange(32) * 11 % 32]
    found = run(module, by_name("loads"), given).transpose(0, 2, 1)
    assert (found[..., :4] == flat).all()
    assert (found[..., 4:8] == flat).all()
    assert (found[..., 8:10] == flat[..., 2:]).all()
    assert (found[..., 10] == flat[..., 1] >> np.uint32(16)).all()
    assert (found[..., 11:] == flat[..., 2:]).all()
    given = random_input(by_name("copy_async"), WARPS, seed=7)
    found = run(module, by_name("copy_async"), given).transpose(0, 2, 1)
    first, second = given.reshape(WARPS, 2, 32, 4).transpose(1, 0, 2, 3)
    kept = np.arange(4) < (np.arange(32) % 5)[:, None]
    assert (found[..., :4] == first[:, np.arange(32) ^ 1]).all()
    assert (found[..., 4:] == (second * kept)[:, ::-1]).all()


def test_logistic_function(module: HostModule) -> None:
    given = random_input(by_name("logistic"), WARPS, seed=9)
    found = run(module, by_name("logistic"), given)
    with np.errstate(all="ignore"):
        expected = (1 / (1 + np.exp(-floats_of(given).astype(float)))).astype(np.float32)
    assert differences(by_name("logistic"), found, expected.view(np.uint32), given) == 0


def test_atomic_operations_of_several_lanes(module: HostModule) -> None:
    given = random_input(by_name("memory"), WARPS, seed=10)
    found, lanes = run(module, by_name("memory"), given), np.arange(32)
    floats = (given.view(np.int32) >> 12).astype(np.float32)
    counts, sums = given[:, 1] % 8, floats[:, 0].copy()
    sums[:, lanes * 5 % 32] += floats[:, 1]
    assert (found[:, 0] == counts[:, lanes * 7 % 32]).all()
    assert (found[:, 1] == np.where(counts >= 5, 0, counts + 1)).all()
    fours = sums.reshape(WARPS, 8, 4)[:, lanes % 8].transpose(0, 2, 1)
    assert (floats_of(found[:, 2:]) == fours).all()


def test_loading_matrix_fragments(module: HostModule) -> None:
    given = random_input(by_name("load_matrix"), WARPS, seed=8)
    rows = np.ascontiguousarray(given.transpose(0, 2, 1)[:, np.arange(32) * 5 % 32])
    halves = rows.view(np.uint16).reshape(WARPS, 4, 8, 8)
    found = run(module, by_name("load_matrix"), given)
    pairs = np.ascontiguousarray(found.transpose(0, 1, 2)).view(np.uint16)
    pairs = pairs.reshape(WARPS, 2, 4, 8, 8)  # transposed or not, matrix, row, column
    assert (pairs[:, 0] == halves).all()
    assert (pairs[:, 1] == halves.transpose(0, 1, 3, 2)).all()


@pytest.mark.parametrize("signed", [False, True])
def test_int8_matrix_products(module: HostModule, signed: bool) -> None:
    primitive = by_name("mma_s8s8" if signed else "mma_u8s8")
    given = random_input(primitive, WARPS, seed=9)
    a = bytes_of(given[:, :4], signed=signed).reshape(WARPS, 2, 2, 8, 16)
    a = a.transpose(0, 2, 3, 1, 4).reshape(WARPS, 16, 32)  # half of rows, row; half of k, k
    b = bytes_of(given[:, 4:6], signed=True).reshape(WARPS, 2, 8, 16)
    b = b.transpose(0, 2, 1, 3).reshape(WARPS, 8, 32)
    c = given[:, 6:].reshape(WARPS, 2, 2, 8, 4).transpose(0, 1, 3, 4, 2).reshape(WARPS, 16, 8)
    found = run(module, primitive, given).reshape(WARPS, 2, 2, 8, 4)
    found = found.transpose(0, 1, 3, 4, 2).reshape(WARPS, 16, 8)
    assert (found == (a @ b.transpose(0, 2, 1) + c).astype(np.uint32)).all()


def test_matrix_products_accumulate(module: HostModule) -> None:
    given = random_input(by_name("mma_onto"), WARPS, seed=11)
    found = run(module, by_name("mma_onto"), given)
    assert (found[:, :4] == run(module, by_name("mma_u8s8"), given)).all()
    assert (found[:, 4:8] == run(module, by_name("mma_s8s8"), given)).all()
    assert (found[:, 12:] == given[:, 6:]).all()
    # Only the second halves of rows and columns, as if the first were zeros.
    half = given.copy()
    half[:, [0, 1, 4]] = 0
    assert (found[:, 8:12] == run(module, by_name("mma_s8s8"), half)).all()


def test_partial_copies(module: HostModule) -> None:
    given = random_input(by_name("copy_async_few"), WARPS, seed=12)
    found = run(module, by_name("copy_async_few"), given).transpose(0, 2, 1)
    lanes, flat = np.arange(32), given.reshape(WARPS, 96)
    kept = np.arange(2) < (lanes % 3)[:, None]
    assert (found[..., :2] == (flat[:, :64].reshape(WARPS, 32, 2) * kept)[:, lanes ^ 1]).all()
    assert (found[..., 2] == (flat[:, 64:] * (lanes % 2).astype(np.uint32))[:, ::-1]).all()
    assert (found[..., 3:] == flat.reshape(WARPS, 24, 4)[:, lanes % 8]).all()


@pytest.mark.parametrize("name", ["mma_f16", "mma_bf16"])
def test_float_matrix_products(module: HostModule, name: str) -> None:
    primitive = by_name(name)
    given = random_input(primitive, WARPS, seed=10)
    found = run(module, primitive, given)
    a, b, c = matrices(given, primitive.kind)
    assert np.abs(result(found) - (a @ b.transpose(0, 2, 1) + c)).max() < 1e-5
    assert differences(primitive, found, found, given) == 0
    assert differences(primitive, np.roll(found, 1, 2), found, given) > found.size / 2


def test_conformance_check_counts_differences(module: HostModule) -> None:
    """The comparison on a GPU relies on it."""
    for primitive in PRIMITIVES:
        given = random_input(primitive, 4, seed=11)
        found = run(module, primitive, given)
        assert differences(primitive, found, found, given) == 0
        wrong = found.copy()
        wrong[1, 0, 5] ^= np.uint32(1 << 29)
        assert differences(primitive, wrong, found, given) == 1


def test_table_lists_every_primitive() -> None:
    text = (CSRC / "conformance.cuh").read_text()
    for primitive in PRIMITIVES:
        call = f"({primitive.name}, {primitive.inputs}, {primitive.outputs})"
        matrix = primitive.name.startswith("mma") and primitive.name != "mma_onto"
        assert (
            f"MATRIX_PRIMITIVE({primitive.name}," in text if matrix else f"PRIMITIVE{call}" in text
        )
    assert len(PRIMITIVES) == text.count("\nPRIMITIVE(") + text.count("\nMATRIX_PRIMITIVE(")
