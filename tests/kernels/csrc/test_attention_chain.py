"""A layer's attention by kernels (append, attend, combine) against plain torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary
from kernel_harness.interpreted_library import InterpretedTritonLibrary

from ingle.kernels.attention.attention_combine import launch_attention_combine
from ingle.kernels.attention.attention_input import AttentionInput, AttentionMetadata
from ingle.kernels.attention.attention_variant import attention_variants
from ingle.kernels.attention.rope_append import launch_rope_append
from ingle.kernels.attention.triton_attention import TritonAttention
from ingle.kernels.elementwise.activations import dequantize_q8
from ingle.kernels.elementwise.rope import launch_rotary_tables, rotary_tables
from ingle.kernels.kv_cache.kv_page_format import KVPageFormat
from ingle.kernels.kv_cache.kv_pages import KeyBias, KVPages, QuantizedKVPages
from ingle.kernels.operations import Operations

MakeLibrary = Callable[..., CPUKernelLibrary]

PAGE, HEADS, KV_HEADS = 32, 4, 2
PROMPT, CONTEXT = 70, 200
# Mean squared errors: of 16-bit queries, values and outputs; of 8-bit ones.
NMSE, NMSE_OF_BYTES = 1e-6, 1e-4


def pages(kind: str, size: int, bias: KeyBias | None) -> KVPages:
    shape = -(-CONTEXT // PAGE) + 1, PAGE, KV_HEADS
    if kind == "f16":
        return torch.full((*shape, size), torch.nan, dtype=torch.float16)
    form = KVPageFormat(8 if kind == "q8_0" else 4, size)
    codes = torch.zeros(
        *shape, form.code_bytes, dtype=torch.int8 if form.bits == 8 else torch.uint8
    )
    return QuantizedKVPages(codes, torch.full((*shape, form.blocks), torch.nan).half(), bias)


def step(table: torch.Tensor, first: int, tokens: int) -> AttentionMetadata:
    positions = torch.arange(first, first + tokens)
    return AttentionMetadata(
        positions,
        table[positions // PAGE].long() * PAGE + positions % PAGE,
        table[None],
        torch.tensor([first + tokens], dtype=torch.int32),
        torch.tensor([0, tokens], dtype=torch.int32),
        tokens,
        first + tokens,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize(("size", "rotated", "bias"), [(64, 64, True), (80, 32, False)])
def test_prefill_and_continuation_equal_plain_torch(
    make_library: MakeLibrary, kind: str, size: int, rotated: int, bias: bool
) -> None:
    """Two chunks of a prompt, five tokens at once as in verification, and one."""
    random = torch.Generator().manual_seed(size)
    rates = 1e4 ** (-torch.arange(rotated // 2) / (rotated // 2))
    library = make_library(seed=1)
    variants = InterpretedTritonLibrary(list(attention_variants()), num_sms=16)
    attention = TritonAttention(
        variants, torch.device("cpu"), workspace_bytes=1 << 20, fill=math.nan
    )
    every = rotary_tables(torch.arange(CONTEXT), rates, 1.0)
    part = 20 * torch.randn(KV_HEADS, size, generator=random)
    key_bias = KeyBias(part, *every) if bias else None
    ours = pages(kind, size, key_bias), pages(kind, size, None)
    theirs = pages(kind, size, key_bias), pages(kind, size, None)
    table = torch.randperm(ours[0].shape[0] - 1, generator=random).int()
    first = 0
    for tokens in (PROMPT, 60, 5, 1):
        now = step(table, first, tokens)
        first += tokens
        query, key, value = (
            torch.randn(tokens, count, size, generator=random)
            for count in (HEADS, KV_HEADS, KV_HEADS)
        )
        norm = None if bias else torch.rand(size, generator=random) + 0.5
        tables = launch_rotary_tables(library, now.positions, rates, 1.0)
        given = query.half(), key.half(), value.half()
        x = AttentionInput(*given, norm, norm, 1e-6, *tables, part if bias else None)
        exact = replace(x, query=given[0].float(), key=given[1].float(), value=given[2].float())
        expected = Operations(torch.float32).attend(exact, *theirs, now, scale=size**-0.5)
        bias_query = launch_rope_append(library, x, *ours, now.slot_mapping)
        partials = attention.attend(x.query, bias_query, *ours, now, scale=size**-0.5)
        found = launch_attention_combine(library, partials, rotated=kind != "f16", tiles=True)
        assert expected.dense is not None
        assert found.dense is not None
        assert found.tiles is not None
        errors = [
            float(((each.double() - expected.dense) ** 2).mean() / expected.dense.square().mean())
            for each in (found.dense, dequantize_q8(found.tiles, HEADS * size))
        ]
        assert errors[0] < NMSE
        assert errors[1] < NMSE_OF_BYTES
        assert (partials.splits > 1) == (tokens < 16)
