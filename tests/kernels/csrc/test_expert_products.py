"""csrc/expert_gemv.cuh and expert_gemm.cuh on the CPU against exact arithmetic, and mixtures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kernel_harness.host_library import CPUKernelLibrary
from kernel_harness.interpreted_library import InterpretedTritonLibrary

from ingle.kernels.elementwise.activations import quantize_q8_reference
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import PreparedWeight, QuantizedTensor, RepackedTensor
from ingle.kernels.formats.weight_format import GGML_FORMATS
from ingle.kernels.kernel_operations import KernelOperations
from ingle.kernels.matmul import expert_gemm, expert_gemv, expert_layers
from ingle.kernels.matmul.expert_gemm import (
    ExpertGemm,
    block_width,
    expert_blocks,
    expert_gemm_failures,
)
from ingle.kernels.matmul.expert_gemv import (
    MOST_PICKS,
    ExpertGemv,
    expert_failures,
    expert_gemv_reference,
)
from ingle.kernels.matmul.expert_layers import ExpertLayer, ExpertLayers
from ingle.kernels.matmul.expert_picks import (
    ExpertPicks,
    expert_pick_failures,
    sum_picks_reference,
)
from ingle.kernels.matmul.quantized_gemm import QuantizedGemm

MakeLibrary = Callable[..., CPUKernelLibrary]
MakeQuantized = Callable[..., QuantizedTensor]
KINDS = [form.name for form in GGML_FORMATS.values() if form.has_expert_kernel]
EXPERTS, USED = 6, 3


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the relative error in the Euclidean norm; NaN if a value is missing."""
    return float(((found.double() - expected) ** 2).sum().sqrt() / (expected**2).sum().sqrt())


def layers_of(gate: PreparedWeight, up: PreparedWeight, down: PreparedWeight) -> ExpertLayers:
    first, second = ExpertLayer(gate, EXPERTS), ExpertLayer(up, EXPERTS)
    return ExpertLayers(first, second, ExpertLayer(down, EXPERTS), "silu")


def pick(tokens: int) -> torch.Tensor:
    return torch.stack([torch.randperm(EXPERTS)[:USED] for _ in range(tokens)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "inputs"), [(1, 256), (37, 1280), (9, 2304)])
@pytest.mark.parametrize(("tokens", "split"), [(1, 1), (1, 4), (5, 4), (8, None)])
def test_each_pick_is_multiplied_by_its_expert(
    make_library: MakeLibrary, make_quantized: MakeQuantized, kind: str, rows: int, inputs: int,
    tokens: int, split: int | None,
) -> None:  # fmt: skip
    weight = make_quantized(kind, EXPERTS * rows, inputs, tame=True)
    tiles, picked = quantize_q8_reference(torch.randn(tokens, inputs)), pick(tokens)
    gemv = ExpertGemv(make_library(seed=tokens))
    bias = torch.randn(EXPERTS, rows) if tokens > 1 else None
    layer = ExpertLayer(repack(weight), EXPERTS, bias)
    found = gemv.multiply(layer, tiles, picked, split=split)
    expected = expert_gemv_reference(weight, EXPERTS, tiles, picked)
    if bias is not None:
        expected = expected + bias[picked.flatten()]
    assert found.shape == (tokens * USED, rows)
    assert error(found, expected) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rows", "inputs", "tokens", "wide", "sms"),
    [(1, 256, 1, 8, 132), (37, 1280, 30, 8, 3), (130, 768, 40, 32, 5), (140, 512, 150, 32, 132)],
)
def test_sorted_picks_are_multiplied_by_their_experts(
    make_library: MakeLibrary, make_quantized: MakeQuantized, kind: str, rows: int, inputs: int,
    tokens: int, wide: int, sms: int,
) -> None:  # fmt: skip
    """Blocks that share tiles, and experts with more picks than a block has rows, or with none."""
    weight = make_quantized(kind, EXPERTS * rows, inputs, tame=True)
    tiles, picked = quantize_q8_reference(torch.randn(tokens, inputs)), pick(tokens)
    picked[:, 0] = 2
    bias = torch.randn(EXPERTS, rows) if tokens > 1 else None
    gemm = ExpertGemm(QuantizedGemm(make_library(seed=tokens, num_sms=sms)))
    blocks = expert_blocks(picked, EXPERTS, wide)
    layer = ExpertLayer(repack(weight), EXPERTS, bias)
    found = gemm.multiply(layer, tiles.index_select(1, blocks.tokens), blocks)
    expected = expert_gemv_reference(weight, EXPERTS, tiles, picked)
    if bias is not None:
        expected = expected + bias[picked.flatten()]
    assert error(found[blocks.rows.flatten()], expected) < 1e-6


def numbers(values: torch.Tensor) -> list[int]:
    return [int(value) for value in values.flatten()]


@given(
    picks=st.lists(st.integers(0, 4), min_size=2, max_size=60).filter(lambda x: len(x) % 2 == 0),
    wide=st.sampled_from([8, 32]),
)
def test_each_block_has_the_picks_of_one_expert(picks: list[int], wide: int) -> None:
    picked = torch.tensor(picks).view(-1, 2)
    blocks = expert_blocks(picked, 5, wide)
    used, *experts = numbers(blocks.experts)
    assert used == sum(-(-picks.count(expert) // wide) for expert in range(5)) <= len(experts)
    assert len(blocks.tokens) == wide * len(experts)
    rows = numbers(blocks.rows)
    assert len(set(rows)) == len(rows)
    assert [experts[row // wide] for row in rows] == picks
    assert numbers(blocks.tokens[rows]) == [pick // 2 for pick in range(len(picks))]
    assert experts[:used] == sorted(experts[:used])


@pytest.mark.parametrize(
    ("tokens", "used", "count", "wide"), [(1, 4, 60, 8), (40, 3, 5, 8), (33, 2, 9, 32)]
)
def test_picks_are_sorted_and_summed_as_by_torch(
    make_library: MakeLibrary, tokens: int, used: int, count: int, wide: int
) -> None:
    """Bit for bit, also if one expert has most picks and others none."""
    picks = ExpertPicks(make_library(seed=tokens))
    picked = torch.rand(tokens, count).topk(used).indices
    picked[::2, 0] = count - 1
    found, right = picks.sort(picked, count, wide), expert_blocks(picked, count, wide)
    assert all(map(torch.equal, found[1:], right[1:]))
    products, weights = torch.randn(len(right.tokens), 1036), torch.rand(tokens, used)
    weights[0, 0] = 0.0
    for rows in (right.rows, None):
        some = products[: tokens * used] if rows is None else products.clone()
        some[0 if rows is None else rows[0, 0]] = torch.inf
        given = some, weights, rows
        total = picks.sum(*given)
        assert torch.equal(total, sum_picks_reference(*given))
        assert bool(total[0].isfinite().all()), "a pick without weight"
    with pytest.raises(ValueError, match="are not summed"):
        picks.sum(products[:, :30], weights)
    assert not list(expert_pick_failures(picks, torch.device("cpu")))


def test_blocks_are_wider_where_experts_have_more_picks() -> None:
    assert [block_width(picks, 128) for picks in (80, 512, 4096)] == [8, 8, 32]
    assert block_width(80, 2) == 32


def test_what_does_not_fit_is_refused(
    make_library: MakeLibrary, make_quantized: MakeQuantized
) -> None:
    gemv, picked = ExpertGemv(make_library()), pick(2)
    tiles = quantize_q8_reference(torch.randn(2, 256))
    layer = ExpertLayer(repack(make_quantized("Q4_K", EXPERTS * 4, 256, tame=True)), EXPERTS)
    with pytest.raises(ValueError, match="do not fit"):
        gemv.multiply(layer, tiles, picked[:1])
    with pytest.raises(ValueError, match="do not fit"):
        gemv.multiply(layer, tiles, picked.int())
    other = ExpertLayer(repack(make_quantized("Q4_0", EXPERTS * 4, 256, tame=True)), EXPERTS)
    with pytest.raises(ValueError, match="no kernels"):
        gemv.multiply(other, tiles, picked)
    gemm, blocks = ExpertGemm(QuantizedGemm(make_library())), expert_blocks(picked, EXPERTS, 8)
    with pytest.raises(ValueError, match="do not fit"):
        gemm.multiply(layer, tiles, blocks)
    with pytest.raises(ValueError, match="no kernels"):
        gemm.multiply(other, tiles, blocks)


def test_check_finds_a_wrong_product(
    make_library: MakeLibrary, make_quantized: MakeQuantized, monkeypatch: pytest.MonkeyPatch
) -> None:
    gemv, device = ExpertGemv(make_library()), torch.device("cpu")
    weights = [make_quantized(kind, 20, 512, tame=True) for kind in ("Q4_K", "Q8_0")]
    assert not expert_failures(gemv, weights, device)

    def first_expert(_: QuantizedTensor) -> RepackedTensor:
        return repack(weights[0].rows(torch.arange(20) % 10))

    monkeypatch.setattr(expert_gemv, "repack", first_expert)
    (failure,) = expert_failures(gemv, weights[:1], device)
    assert failure.startswith("Q4_K by picked experts is off by")
    gemm = ExpertGemm(QuantizedGemm(make_library()))
    assert not expert_gemm_failures(gemm, weights, device)
    monkeypatch.setattr(expert_gemm, "repack", first_expert)
    failures = expert_gemm_failures(gemm, weights[:1], device)
    assert [failure.split(" of picked")[0] for failure in failures] == [
        f"Q4_K by blocks of {wide}" for wide in (8, 32)
    ]


@pytest.mark.parametrize("kinds", [("Q4_K", "Q6_K"), ("Q8_0", "Q8_0"), ("Q4_K", "Q5_0")])
@pytest.mark.parametrize("tokens", [1, 4, 40])
def test_mixture_on_kernels_equals_plain_torch(
    make_library: MakeLibrary, make_quantized: MakeQuantized, kinds: tuple[str, str], tokens: int
) -> None:
    """Few tokens by the kernel, more by those of each expert; a format without a kernel, too."""
    compiled = InterpretedTritonLibrary([], num_sms=8)
    operations = KernelOperations(
        make_library(seed=1), compiled, dtype=torch.bfloat16, device=torch.device("cpu")
    )
    hidden, width = 256, 512
    gate, up, down = (
        make_quantized(kind, EXPERTS * rows, columns, seed, tame=True)
        for seed, (kind, rows, columns) in enumerate(
            ((kinds[0], width, hidden), (kinds[0], width, hidden), (kinds[1], hidden, width))
        )
    )
    plain = layers_of(gate, up, down)
    prepared = layers_of(*map(operations.prepare_experts, (gate, up, down)))
    assert isinstance(prepared.down.weight, RepackedTensor) is (kinds[1] in KINDS)
    assert operations.has_slow_experts is (kinds[1] not in KINDS)
    rows, picked, weights = torch.randn(tokens, hidden) / 8, pick(tokens), torch.rand(tokens, USED)
    assert (picked.numel() <= MOST_PICKS) is (tokens < 40)
    x = operations.activations(rows.bfloat16())
    found = operations.experts(x, prepared, picked, weights)
    assert found.dtype == torch.float32
    expected = expert_layers.experts_by_group(rows.bfloat16().float(), plain, picked, weights)
    assert error(found, expected.double()) < 0.03
