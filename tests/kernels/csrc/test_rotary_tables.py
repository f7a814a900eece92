"""csrc/rotary_tables.cuh on the CPU against float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.elementwise.rope import launch_rotary_tables, rotary_tables

MakeLibrary = Callable[..., CPUKernelLibrary]
MakeTables = Callable[..., tuple[torch.Tensor, torch.Tensor]]


@pytest.fixture
def make_tables(make_library: MakeLibrary) -> MakeTables:
    return partial(launch_rotary_tables, make_library(seed=1))


def frequencies(pairs: int, theta: float = 10000.0) -> torch.Tensor:
    return theta ** (-torch.arange(pairs) / pairs)


@pytest.mark.parametrize(("tokens", "pairs"), [(1, 1), (3, 10), (4, 32), (9, 64), (130, 37)])
def test_tables_of_any_shape(make_tables: MakeTables, tokens: int, pairs: int) -> None:
    positions = torch.randint(0, 4096, (tokens,), generator=torch.Generator().manual_seed(pairs))
    found = make_tables(positions, frequencies(pairs), 1.3)
    assert found[0].shape == (tokens, pairs)
    for ours, theirs in zip(found, rotary_tables(positions, frequencies(pairs), 1.3), strict=True):
        assert float((ours - theirs).abs().max()) < 3e-7


@pytest.mark.parametrize("last", [300, 131_072, 1_000_000, 1 << 29])
def test_large_positions(make_tables: MakeTables, last: int) -> None:
    positions = torch.cat((torch.arange(last - 150, last + 1), torch.arange(50)))
    rates = torch.cat((frequencies(48), frequencies(48, 5e5), torch.tensor([0.0, 1.5, 3.1415927])))
    angles = positions.double()[:, None] * rates.double()
    cosine, sine = make_tables(positions, rates, 1.0)
    assert float((cosine - angles.cos()).abs().max()) < 2.5e-7
    assert float((sine - angles.sin()).abs().max()) < 2.5e-7
    assert bool((cosine.abs() <= 1).all())
    assert bool((sine.abs() <= 1).all())


def test_angles_near_quadrant_boundaries(make_tables: MakeTables) -> None:
    eighths = torch.arange(-1, 2).double() * 1e-6 + torch.arange(0, 17).double()[:, None]
    rates = (eighths.flatten() * torch.pi / 4).float()
    angles = torch.tensor([[1.0], [3.0]]).double() * rates.double()
    cosine, sine = make_tables(torch.tensor([1, 3]), rates, 1.0)
    assert float((cosine - angles.cos()).abs().max()) < 2.5e-7
    assert float((sine - angles.sin()).abs().max()) < 2.5e-7


def test_reference_in_single_precision_at_small_positions() -> None:
    positions = torch.arange(16)
    angles = positions.float()[:, None] * frequencies(32)
    cosine, sine = rotary_tables(positions, frequencies(32), 1.0)
    assert float((cosine - angles.cos()).abs().max()) < 2e-6
    assert float((sine - angles.sin()).abs().max()) < 2e-6


def test_invalid_shapes_are_rejected(make_tables: MakeTables) -> None:
    with pytest.raises(ValueError, match="are no angles"):
        make_tables(torch.arange(3).int(), frequencies(4), 1.0)
