"""The Hadamard rotation of heads against multiplication by its matrix."""

from __future__ import annotations

import math

import pytest
import torch

from ingle.kernels.kv_cache.kv_append import hadamard_reference
from ingle.kernels.kv_cache.kv_page_format import block_size

SIZES = [8, 16, 64, 80, 96, 128, 256]


def matrix(head_size: int) -> torch.Tensor:
    """Return the rotation matrix, built from its definition."""
    block = block_size(head_size)
    entries = [
        [1.0 - 2.0 * ((i % block & j % block).bit_count() % 2) if i // block == j // block else 0.0]
        for i in range(head_size)
        for j in range(head_size)
    ]
    return torch.tensor(entries, dtype=torch.float64).view(head_size, -1) / math.sqrt(block)


def random_heads(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", SIZES)
def test_rotation_equals_an_orthonormal_matrix_product(size: int) -> None:
    rotation = matrix(size)
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(size, dtype=torch.float64))
    heads = random_heads(7, 3, size)
    expected = heads.double() @ rotation
    torch.testing.assert_close(hadamard_reference(heads).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", SIZES)
def test_rotation_keeps_the_scores(size: int) -> None:
    query, keys = random_heads(4, size), 10 * random_heads(40, size, seed=1)
    scores = query.double() @ keys.double().T
    rotated = hadamard_reference(query) @ hadamard_reference(keys).T
    assert float((rotated.double() - scores).abs().max()) < 1e-5 * float(scores.abs().max())


@pytest.mark.parametrize("size", SIZES)
def test_rotating_twice_is_the_identity(size: int) -> None:
    heads = random_heads(5, 2, size)
    torch.testing.assert_close(
        hadamard_reference(hadamard_reference(heads)), heads, rtol=1e-5, atol=1e-6
    )


def test_outlier_is_spread_over_its_block() -> None:
    heads = torch.zeros(1, 96)
    heads[0, 40] = 8.0
    rotated = hadamard_reference(heads)[0]
    torch.testing.assert_close(rotated[32:64].abs(), torch.full((32,), 8 / math.sqrt(32)))
    assert not rotated[:32].any()
    assert not rotated[64:].any()


def test_result_does_not_depend_on_other_heads() -> None:
    """Bit for bit: quantisation would amplify a difference."""
    heads = random_heads(33, 4, 80)
    together = hadamard_reference(heads)
    assert all(
        torch.equal(hadamard_reference(heads[i, j]), together[i, j])
        for i in range(33)
        for j in (0, 3)
    )


def test_result_is_a_float32_copy() -> None:
    heads = random_heads(3, 64).bfloat16()
    rotated = hadamard_reference(heads)
    assert rotated.dtype is torch.float32
    torch.testing.assert_close(rotated, hadamard_reference(heads.float()))
    views = random_heads(3, 2, 128)[:, 1]
    torch.testing.assert_close(hadamard_reference(views), hadamard_reference(views.clone()))
