"""Parts that the attention kernel combines itself, against the launch that otherwise does."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from ingle.kernels.attention.attention_combine import attention_combine_reference
from ingle.kernels.attention.attention_variant import attention_variants
from ingle.kernels.attention.triton_attention import TritonAttention
from ingle.kernels.elementwise.activations import (
    ActivationForms,
    Activations,
    dequantize_q8,
    q8_groups,
    quantize_q8_reference,
)
from tests.kernels.attention.conftest import Problem, Recorder, make

pytestmark = pytest.mark.usefixtures("single_thread")

BOTH = ActivationForms(torch.float16, tiles=True)


def attention(num_sms: int = 16) -> TritonAttention:
    return TritonAttention(
        Recorder(num_sms), torch.device("cpu"), workspace_bytes=4 << 20, fill=math.nan
    )


def combined(
    problem: Problem, operation: TritonAttention, wanted: ActivationForms = BOTH
) -> Activations:
    partials = operation.attend(
        problem.query,
        problem.bias_query,
        problem.key_pages,
        problem.value_pages,
        problem.step,
        scale=problem.scale,
        wanted=wanted,
    )
    assert partials.combined is not None
    return partials.combined


def check(problem: Problem, num_sms: int = 16) -> None:
    _, partials, _ = problem.attend(num_sms=num_sms)
    expected = attention_combine_reference(partials, rotated=problem.is_rotated, tiles=True)
    operation = attention(num_sms)
    for _ in range(2):  # as a graph does: counts begin and end at zero
        found = combined(problem, operation)
        assert found.dense is not None
        assert expected.dense is not None
        torch.testing.assert_close(found.dense, expected.dense, rtol=2e-3, atol=2e-3)
        assert found.tiles is not None
        assert expected.tiles is not None
        ours, theirs = (q8_groups(each, found.size) for each in (found.tiles, expected.tiles))
        values, wanted = (each[..., :32].view(torch.int8).int() for each in (ours, theirs))
        # Sums in another order may be rounded to the next number.
        assert (values - wanted).abs().max() <= 1
        exact = dequantize_q8(found.tiles, found.size).float()
        again = q8_groups(quantize_q8_reference(exact), found.size)
        assert torch.equal(again[..., :32], ours[..., :32])
        halves = values.view(*values.shape[:-1], 2, 16).sum(-1)
        facts = ours[..., 32:].contiguous()
        assert torch.equal(facts.view(torch.int32)[..., 2:], (-32 * halves).int())
        scale, scaled = facts.view(torch.float32)[..., :2].unbind(-1)
        assert torch.equal(scaled, scale * halves.sum(-1))


def test_one_token_in_few_parts() -> None:
    check(make([(1, 70)], kv_heads=1, pages="q8_0"), num_sms=1)


@pytest.mark.slow
@pytest.mark.parametrize("pages", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize(("head_size", "group"), [(64, 4), (96, 3), (128, 16)])
def test_one_token(head_size: int, group: int, pages: str) -> None:
    check(make([(1, 300)], head_size=head_size, group=group, pages=pages))


@pytest.mark.slow
@pytest.mark.parametrize("num_sms", [1, 16, 200])
def test_any_number_of_parts(num_sms: int) -> None:
    """One that has all keys, too: a launch that quantises it would cost as much as combining."""
    check(make([(1, 700)], kv_heads=1), num_sms=num_sms)


@pytest.mark.slow
def test_two_tokens_of_one_sequence_and_of_two() -> None:
    check(make([(2, 300)], group=5))
    check(make([(1, 40), (1, 300)]))
    check(make([(1, 1300), (1, 40)], kv_heads=1), num_sms=8)  # divided by their keys


@pytest.mark.slow
def test_large_and_biased_heads() -> None:
    check(make([(1, 200)], head_size=256, pages="q4_0"))
    check(make([(2, 70)], head_size=512))
    check(make([(1, 70)], head_size=512, lead=64, kv_heads=1, group=20, pages="q8_0"))
    check(make([(1, 300)], pages="q8_0", is_biased=True))


@pytest.mark.slow
def test_parts_without_keys() -> None:
    """As in a graph that was recorded for longer contexts."""
    problem = make([(1, 40)])
    longer = replace(problem.step, longest_context=4000)
    check(replace(problem, step=longer), num_sms=64)


@pytest.mark.slow
def test_order_of_programs_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make([(1, 300), (1, 70)], pages="q8_0")
    forwards = combined(problem, attention())
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    builder = interpreter.InterpreterBuilder
    place = builder.set_grid_idx

    def backwards(self: Any, *index: int) -> None:
        place(self, *(size - 1 - each for size, each in zip(self.grid_dim, index, strict=True)))

    monkeypatch.setattr(builder, "set_grid_idx", backwards)
    found = combined(problem, attention())
    assert forwards.dense is not None
    assert found.dense is not None
    assert torch.equal(forwards.dense, found.dense)
    assert forwards.tiles is not None
    assert found.tiles is not None
    assert torch.equal(*(q8_groups(each, found.size) for each in (forwards.tiles, found.tiles)))


@pytest.mark.slow
def test_only_the_wanted_forms() -> None:
    problem = make([(1, 300)])
    found = combined(problem, attention(), ActivationForms(tiles=True))
    assert found.dense is None
    assert found.tiles is not None
    found = combined(problem, attention(), ActivationForms(torch.float16))
    assert found.dense is not None
    assert found.tiles is None


def test_which_kernels_combine() -> None:
    kernels = {each.name: each.combines for each in attention_variants()}
    assert kernels["attend_split-bf16-q8_0-128-r16"]
    assert not kernels["attend_split-bf16-q8_0-80-r16"], "groups of 32 span two heads"
    assert not kernels["attend_split-bf16-q8_0-128-r32"]
    assert not kernels["attend_chunk-bf16-q8_0-128-r128"]
