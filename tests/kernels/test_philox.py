"""Philox4x32-10 against its authors' test vectors."""

from __future__ import annotations

import numpy as np
import pytest

from ingle.kernels.philox import philox, uniforms

# From the known-answer tests (`kat_vectors`) of Random123, for philox4x32 with 10 rounds.
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_known_answer_vectors(
    counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    got = philox(np.array([counter], np.uint64), np.array([key], np.uint64))
    assert tuple(got[0].tolist()) == expected


def test_numbers_depend_only_on_seed_and_position() -> None:
    seeds = np.array([1, 2, 1, 2**64 - 1], np.uint64)
    places = np.array([0, 0, 7, 2**40], np.uint64)
    together = uniforms(seeds, places)
    assert len(set(together.flatten().tolist())) == 8
    for row in range(4):
        assert (uniforms(seeds[row : row + 1], places[row : row + 1]) == together[row]).all()


def test_numbers_are_uniform_and_never_zero() -> None:
    count = 200_000
    numbers = uniforms(np.full(count, 5, np.uint64), np.arange(count, dtype=np.uint64))
    assert numbers.min() > 0
    assert numbers.max() <= 1
    for column in numbers.T:
        seen, _ = np.histogram(column, 100, (0, 1))
        chi_square = ((seen - count / 100) ** 2 / (count / 100)).sum()
        assert abs(chi_square - 99) < 5 * np.sqrt(2 * 99)
    first, second = numbers.T - 0.5
    # The variance of the product of two is 1/144.
    for pairs in (first * second, first[1:] * first[:-1]):
        assert abs(pairs.sum()) < 5 * np.sqrt(count) / 12
