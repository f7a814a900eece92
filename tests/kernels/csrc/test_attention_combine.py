"""csrc/attention_combine.cuh on the CPU against float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.kernels.attention.attention_combine import (
    AttentionPartials,
    attention_combine_reference,
    launch_attention_combine,
)
from ingle.kernels.elementwise.activations import Activations, quantize_q8_reference
from ingle.kernels.kv_cache.kv_append import hadamard_reference
from ingle.kernels.launch.cuda_driver import Argument, Grid

MakeLibrary = Callable[..., CPUKernelLibrary]
Combine = Callable[..., partial[Activations]]


@pytest.fixture
def combine(make_library: MakeLibrary) -> Combine:
    def make(num_sms: int = 132) -> partial[Activations]:
        return partial(launch_attention_combine, make_library(seed=2, num_sms=num_sms))

    return make


def make(
    splits: int, tokens: int = 3, heads: int = 4, size: int = 64, dtype: torch.dtype = torch.float32
) -> AttentionPartials:
    """Make partials, some of them empty with NaN outputs, and one row without any keys."""
    random = torch.Generator().manual_seed(splits * size)
    outputs = torch.randn(splits, tokens, heads, size, generator=random)
    log_sums = 5 * torch.randn(splits, tokens, heads, generator=random)
    log_sums[torch.rand(log_sums.shape, generator=random) < 0.3] = -torch.inf
    log_sums[:, 0, 0] = -torch.inf
    outputs[log_sums == -torch.inf] = torch.nan
    dense = torch.full((tokens, heads, size), torch.nan, dtype=dtype)
    return AttentionPartials(dense, outputs, log_sums)


def exact(partials: AttentionPartials) -> torch.Tensor:
    """Combine in float64 by the definition; rotated like the partials."""
    assert partials.outputs is not None
    assert partials.log_sums is not None
    weights = partials.log_sums.double().exp().unsqueeze(-1)
    outputs = partials.outputs.double().masked_fill(weights == 0, 0.0)
    return ((outputs * weights).sum(0) / weights.sum(0)).nan_to_num(0.0)


def groups(tiles: torch.Tensor, inputs: int) -> torch.Tensor:
    """Return the groups of inputs, without unwritten padding."""
    count, columns, _ = tiles.shape
    parts = tiles.view(count, columns, 3, 32, 16).permute(1, 0, 3, 2, 4)
    return parts.reshape(columns, count * 32, 48)[:, : inputs // 32]


@pytest.mark.parametrize("size", [8, 64, 72, 80, 96, 128, 248, 256, 512])
@pytest.mark.parametrize("splits", [1, 2, 7, 33, 128])
def test_any_number_of_splits_and_head_size(combine: Combine, splits: int, size: int) -> None:
    for rotated in (False, True):
        partials = make(splits, size=size)
        expected = exact(partials)
        expected = (hadamard_reference(expected) if rotated else expected).flatten(1)
        found = combine()(partials, rotated=rotated, tiles=True)
        assert found.dense is not None
        assert found.tiles is not None
        assert found.dense.data_ptr() == partials.dense.data_ptr()
        assert float((found.dense - expected).abs().max()) < 2e-6
        assert not found.dense[0, :size].any()
        wanted = quantize_q8_reference(found.dense)
        assert torch.equal(groups(found.tiles, 4 * size), groups(wanted, 4 * size))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_only_requested_outputs_are_written(
    combine: Combine, dtype: torch.dtype, tiles: bool, dense: bool
) -> None:
    partials = make(3, size=80, dtype=dtype)
    full = make(3, size=80)
    expected = combine()(full, rotated=True, tiles=True)
    assert expected.tiles is not None
    found = combine()(partials, rotated=True, dense=dense, tiles=tiles)
    if dense:
        assert torch.equal(partials.dense, full.dense.to(dtype))
    else:
        assert found.dense is None
        assert bool(partials.dense.isnan().all())
    if tiles:
        assert found.tiles is not None
        assert torch.equal(groups(found.tiles, 320), groups(expected.tiles, 320))
    else:
        assert found.tiles is None


@pytest.mark.parametrize("rotated", [False, True])
def test_unsplit_rows_are_read_from_the_output(combine: Combine, rotated: bool) -> None:
    partials = make(5, tokens=4, heads=2, size=80)
    assert partials.log_sums is not None
    whole = torch.randn(2, 80)
    partials.dense[1, 0], partials.dense[2, 1] = whole
    for token, head in ((1, 0), (2, 1)):
        partials.log_sums[:, token, head] = torch.nan  # entries after the mark are unused
        partials.log_sums[0, token, head] = torch.inf
    before = partials.dense.clone()
    found = combine()(partials, rotated=rotated, tiles=True)
    expected = hadamard_reference(whole) if rotated else whole
    assert torch.equal(partials.dense[1, 0], expected[0])
    assert torch.equal(partials.dense[2, 1], expected[1])
    assert found.tiles is not None
    assert torch.equal(
        groups(found.tiles, 160), groups(quantize_q8_reference(partials.dense.flatten(1)), 160)
    )
    assert bool(partials.dense.isfinite().all())
    assert not before[0].isfinite().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_rows_may_be_unsplit(combine: Combine, dtype: torch.dtype) -> None:
    rows = torch.randn(3, 4, 64).to(dtype)
    partials = AttentionPartials(rows.clone())
    found = combine()(partials, rotated=False, tiles=True)
    assert found.tiles is not None
    assert torch.equal(partials.dense, rows)
    wanted = attention_combine_reference(partials, rotated=False, tiles=True).tiles
    assert wanted is not None
    assert torch.equal(groups(found.tiles, 256), groups(wanted, 256))
    combine()(partials, rotated=True)
    assert torch.equal(partials.dense, hadamard_reference(rows).to(dtype))
    untouched = AttentionPartials(rows)
    assert combine()(untouched, rotated=False).dense is not None


@pytest.mark.parametrize("num_sms", [1, 132])
def test_many_tokens_use_fewer_threads_each(combine: Combine, num_sms: int) -> None:
    partials = make(9, tokens=40, heads=2, size=128)
    found = combine(num_sms)(partials, rotated=False)
    assert found.dense is not None
    assert float((found.dense - exact(partials).flatten(1)).abs().max()) < 2e-6


def test_large_and_nan_log_sums(combine: Combine) -> None:
    partials = make(2, tokens=1, heads=3, size=8)
    assert partials.log_sums is not None
    assert partials.outputs is not None
    partials.outputs.nan_to_num_(1.0)
    partials.log_sums[:] = torch.tensor([[[300.0, -300.0, 1.0]], [[290.0, -320.0, torch.nan]]])
    combine()(partials, rotated=False)
    assert torch.allclose(partials.dense[0, :2], partials.outputs[0, 0, :2], atol=2e-4)
    assert bool(partials.dense[0, 2].isnan().all())  # NaN stays visible


def test_reference_equals_the_definition() -> None:
    partials = make(7, size=80)
    found = attention_combine_reference(partials, rotated=True, tiles=True)
    assert found.dense is not None
    assert found.tiles is not None
    assert float((found.dense - hadamard_reference(exact(partials)).flatten(1)).abs().max()) < 2e-6
    assert torch.equal(found.tiles, quantize_q8_reference(found.dense))


class FewHeads(CPUKernelLibrary):
    """Starts only the blocks of the first heads."""

    def launch(
        self,
        source: str,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        overlap: bool = True,
    ) -> None:
        del shared_bytes, overlap
        super().launch(source, kernel, (grid[0], 3, 1), block, arguments)


def test_row_offsets_beyond_2_to_the_31(build_folder: Path) -> None:
    """Memory is reserved, but only a few pages are touched."""
    splits, tokens, heads, size = 128, 3, 23000, 256
    try:
        outputs = torch.empty(splits, tokens, heads, size)
    except RuntimeError as error:
        pytest.skip(f"so much memory cannot be reserved: {error}")
    log_sums = torch.full((splits, tokens, heads), -torch.inf)
    partials = AttentionPartials(torch.empty(tokens, heads, size), outputs, log_sums)
    assert partials.outputs is not None
    assert partials.log_sums is not None
    assert partials.outputs[127].data_ptr() - partials.outputs.data_ptr() > 4 << 31
    partials.outputs[127, 2, 2] = torch.arange(256.0)
    partials.log_sums[127, 2, 2] = 3
    launch_attention_combine(FewHeads(build_folder), partials, rotated=False)
    assert torch.equal(partials.dense[2, 2], torch.arange(256.0))
    assert not partials.dense[:2, :3].any()


def test_invalid_shapes_are_rejected(combine: Combine) -> None:
    partials = make(3)
    assert partials.log_sums is not None
    assert partials.outputs is not None
    with pytest.raises(ValueError, match="are not whole groups of 32"):
        combine()(make(3, heads=3, size=8), rotated=False, tiles=True)
    with pytest.raises(ValueError, match="Heads of 12 elements"):
        combine()(make(3, size=12), rotated=False)
    with pytest.raises(ValueError, match=r"Sums \(2, 3, 4\)|Parts"):
        combine()(replace(partials, log_sums=partials.log_sums[:2]), rotated=False)
    with pytest.raises(ValueError, match="do not fit heads"):
        combine()(make(129, tokens=1), rotated=False)
    strided = replace(partials, outputs=torch.empty(3, 3, 4, 128)[..., :64])
    with pytest.raises(ValueError, match="one after the other"):
        combine()(strided, rotated=False)
