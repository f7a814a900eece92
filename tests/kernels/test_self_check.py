"""`SelfCheck` detects wrong kernels of a device and names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from gpu.weights import random_fp8, random_weight

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.elementwise.rope import rotary_tables
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import QuantizedTensor, Weight, format_name
from ingle.kernels.kv_cache.kv_append import kv_append_reference
from ingle.kernels.kv_cache.kv_pages import KeyBias, KVPages, QuantizedKVPages
from ingle.kernels.operations import Operations
from ingle.kernels.self_check import CHECKED_PAGES, CheckedLayer, HeadShape, SelfCheck

CPU = torch.device("cpu")
HEADS = HeadShape(heads=4, kv_heads=2, head_size=64)


def plain_pages() -> tuple[KVPages, KVPages]:
    shape = (CHECKED_PAGES, 32, HEADS.kv_heads, HEADS.head_size)
    return torch.full(shape, torch.nan), torch.full(shape, torch.nan)


def quantised_pages(bits: int, *, biased: bool) -> tuple[KVPages, KVPages]:
    shape = (CHECKED_PAGES, 32, HEADS.kv_heads)
    width, kind = (64, torch.int8) if bits == 8 else (32, torch.uint8)
    bias = None
    if biased:
        tables = rotary_tables(torch.arange(128), torch.logspace(0, -3, 32), 1.0)
        bias = KeyBias(torch.randn(HEADS.kv_heads, 64) * 60, *tables)

    def plane(bias: KeyBias | None) -> QuantizedKVPages:
        codes = torch.zeros((*shape, width), dtype=kind)
        return QuantizedKVPages(codes, torch.zeros((*shape, 2), dtype=torch.float16), bias)

    return plane(bias), plane(None)


def failures(
    operations: Operations,
    pages: tuple[KVPages, KVPages] | None = None,
    weights: Sequence[Weight] | None = None,
) -> list[str]:
    weight = random_weight("Q4_K", 96, 256, CPU)
    assert isinstance(weight, QuantizedTensor)
    check = SelfCheck(operations, CPU)
    return check.failures(weights or [weight], CheckedLayer(HEADS, *(pages or plain_pages())))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_plain_torch_passes(dtype: torch.dtype) -> None:
    assert failures(Operations(dtype)) == []


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("biased", [False, True])
def test_quantised_pages_pass(bits: int, *, biased: bool) -> None:
    pages = quantised_pages(bits, biased=biased)
    assert failures(Operations(torch.bfloat16), pages) == []


class FaultyOperations(Operations):
    """Operations with one fault."""

    def __init__(self, wrong: str) -> None:
        super().__init__(torch.bfloat16)
        self._wrong = wrong

    def linear(self, x: Activations, *layers: Any, dtype: Any = None) -> tuple[torch.Tensor, ...]:
        found = super().linear(x, *layers, dtype=dtype)
        if self._wrong == "a column":
            found[0][:, 3] += 1
        if self._wrong == "a neighbour" and len(found) > 1:
            found[1][:, 0] += 1
        return found

    def linear_add(self, residual: torch.Tensor, x: Any, layer: Any, scale: float = 1.0) -> None:
        super().linear_add(residual, x, layer, 1.0 if self._wrong == "the scale" else scale)

    def gated_linear(self, x: Any, gate: Any, up: Any, activation: Any) -> Activations:
        wrong = self._wrong == "the activation"
        return super().gated_linear(x, gate, up, "gelu_tanh" if wrong else activation)

    def rms_norm(
        self, rows: torch.Tensor, weight: torch.Tensor, epsilon: float, *, dense: bool = False
    ) -> Activations:
        found = super().rms_norm(rows, weight, epsilon, dense=dense)
        if self._wrong == "a NaN" and found.dense is not None:
            found.dense[0, 0] = torch.nan
        return found

    def attend(
        self, x: Any, key_pages: Any, value_pages: Any, step: Any, **how: Any
    ) -> Activations:
        if self._wrong == "the window":
            how["window"] = 8
        if self._wrong == "a slot":
            kv_append_reference(x.key * 0, x.value, key_pages, value_pages, step.slot_mapping)
            step.slot_mapping[-1] = 0
        return super().attend(x, key_pages, value_pages, step, **how)


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ("a column", "Q4_K by 1 rows"),
        ("the scale", "Q4_K added to 1 rows"),
        ("the activation", "Q4_K gated for 1 rows"),
        ("a NaN", "Q4_K added to 1 rows, normalised"),
        ("the window", "attention of a prompt"),
        ("a slot", "attention of a prompt"),
    ],
)
def test_faulty_operation_is_named(wrong: str, where: str) -> None:
    found = failures(FaultyOperations(wrong))
    assert found
    assert found[0].startswith(f"{where} is off by ")


def test_pairs_of_formats_are_checked() -> None:
    """Adjacent layers of different formats may have a fused kernel."""
    kinds = [random_weight(kind, 96, 256, CPU) for kind in ("Q4_K", "Q6_K")]
    assert failures(Operations(torch.bfloat16), weights=kinds) == []
    found = [
        each
        for each in failures(FaultyOperations("a neighbour"), weights=kinds)
        if " with " in each
    ]
    assert found[0].startswith("Q4_K with Q6_K by 1 rows is off by")
    assert len(found) == 6, "either first, by each number of rows"


def test_inputs_are_rounded_as_products_in_fp8_do() -> None:
    """Also with a stored scale that clips almost all of them."""
    weight = random_fp8(96, 256, CPU)
    clipping = replace(weight, input_scale=torch.tensor(1e-4))
    assert failures(Operations(torch.bfloat16), weights=[weight, clipping]) == []
    found = failures(FaultyOperations("a column"), weights=[clipping])
    assert found[0].startswith("FP8 (row, static) by 1 rows is off by ")


def test_format_names() -> None:
    weight = random_weight("Q6_K", 8, 256, CPU)
    assert isinstance(weight, QuantizedTensor)
    assert format_name(weight) == format_name(repack(weight)) == "Q6_K"
    assert format_name(torch.zeros(2, 2, dtype=torch.bfloat16)) == "bfloat16"
    assert format_name(random_weight("NF4", 8, 256, CPU)) == "NF4"
