"""Attention over shuffled pages: problems, and what is launched to solve them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from kernel_harness.interpreted_library import InterpretedTritonLibrary

from ingle.kernels.attention.attention_combine import AttentionPartials, combine_partials_reference
from ingle.kernels.attention.attention_input import AttentionMetadata
from ingle.kernels.attention.attention_variant import attention_variants
from ingle.kernels.attention.paged_attention_reference import paged_attention_reference
from ingle.kernels.attention.triton_attention import TritonAttention
from ingle.kernels.elementwise.rope import rotary_tables
from ingle.kernels.kv_cache.kv_append import hadamard_reference, kv_append_reference
from ingle.kernels.kv_cache.kv_page_format import KVPageFormat
from ingle.kernels.kv_cache.kv_pages import KeyBias, KVPages, QuantizedKVPages, last_elements
from ingle.kernels.launch.cuda_driver import Argument, Grid

PAGE = 32
TOLERANCES = {torch.float16: 1e-3, torch.bfloat16: 1e-2}
FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture
def single_thread() -> None:
    """Use one thread: tensors are small, and threads of numpy and torch would only wait."""
    torch.set_num_threads(1)


class Recorder(InterpretedTritonLibrary):
    """Records what was launched."""

    def __init__(self, num_sms: int) -> None:
        super().__init__(list(attention_variants()), num_sms)
        self.launches: list[tuple[str, Grid]] = []

    def launch_compiled(self, name: str, grid: Grid, arguments: Sequence[Argument]) -> None:
        self.launches.append((name, grid))
        super().launch_compiled(name, grid, arguments)


@dataclass(frozen=True)
class Problem:
    """Sequences in shuffled pages; unused slots hold NaN, unused table entries are out of range.

    With quantised pages the queries are rotated.
    """

    query: torch.Tensor
    bias_query: torch.Tensor | None
    key_pages: KVPages
    value_pages: KVPages
    step: AttentionMetadata

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.query.shape[2])

    @property
    def is_rotated(self) -> bool:
        return isinstance(self.key_pages, QuantizedKVPages)

    def attend(
        self,
        *,
        num_sms: int = 16,
        window: int | None = None,
        soft_cap: float | None = None,
        sinks: torch.Tensor | None = None,
        workspace_bytes: int = 4 << 20,
        balance: bool = True,
    ) -> tuple[torch.Tensor, AttentionPartials, Recorder]:
        """Return the combined output, its partials, and what was launched."""
        library = Recorder(num_sms)
        attention = TritonAttention(
            library,
            torch.device("cpu"),
            workspace_bytes=workspace_bytes,
            fill=math.nan,
            balance=balance,
        )
        size = (*self.query.shape[:2], self.value_pages.shape[3])
        dense = self.query.new_full(size, torch.nan)
        partials = attention.attend(
            self.query,
            self.bias_query,
            self.key_pages,
            self.value_pages,
            self.step,
            scale=self.scale,
            window=window,
            soft_cap=soft_cap,
            sinks=sinks,
            out=dense,
        )
        return combine_partials_reference(partials), partials, library

    def expected(
        self,
        *,
        window: int | None = None,
        soft_cap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        query = self.query.float()
        output = paged_attention_reference(
            hadamard_reference(query) if self.is_rotated else query,
            self.key_pages,
            self.value_pages,
            self.step.block_tables,
            self.step.context_lengths,
            self.step.query_starts,
            scale=self.scale,
            window=window,
            soft_cap=soft_cap,
            sinks=sinks,
        )
        return hadamard_reference(output) if self.is_rotated else output

    def check(self, *, num_sms: int = 16, **options: float | torch.Tensor | None) -> Recorder:
        found, _, library = self.attend(num_sms=num_sms, **options)  # pyright: ignore[reportArgumentType]
        expected = self.expected(**options)  # pyright: ignore[reportArgumentType]
        pages = self.key_pages
        stored = torch.float16 if isinstance(pages, QuantizedKVPages) else pages.dtype
        tolerance = max(TOLERANCES[self.query.dtype], TOLERANCES[stored])
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
        return library


def make_pages(kind: str, shape: tuple[int, int, int, int], bias: KeyBias | None = None) -> KVPages:
    """Make pages full of values that must not be read."""
    if kind in FLOATS:
        return torch.full(shape, torch.nan, dtype=FLOATS[kind])
    form = KVPageFormat({"q8_0": 8, "q4_0": 4}[kind], shape[-1])
    dtype = torch.int8 if form.bits == 8 else torch.uint8
    codes = torch.full((*shape[:-1], form.code_bytes), 77, dtype=dtype)
    scales = torch.full((*shape[:-1], form.blocks), torch.nan, dtype=torch.float16)
    return QuantizedKVPages(codes, scales, bias)


def make_bias(kv_heads: int, head_size: int, positions: int) -> KeyBias:
    """Return a bias as large as in Qwen2's first layers, with tables scaled by a factor."""
    pairs = head_size // 2
    bias = torch.randn(kv_heads, head_size, generator=torch.Generator().manual_seed(7)) * 20
    bias[:, 3] = 150
    frequencies = 1e6 ** -(torch.arange(pairs) / pairs)
    return KeyBias(bias, *rotary_tables(torch.arange(positions), frequencies, 1.2))


def make_bias_query(query: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return the bias query of `TritonAttention.attend` for queries that are not rotated."""
    spread = bias.repeat_interleave(query.shape[1] // bias.shape[0], 0)
    (q1, q2), (b1, b2) = query.float().chunk(2, -1), spread.chunk(2, -1)
    return torch.cat((q1 * b1 + q2 * b2, q2 * b1 - q1 * b2), -1)


def make(
    chunks: Sequence[tuple[int, int]],
    *,
    head_size: int = 64,
    group: int = 2,
    kv_heads: int = 2,
    query: str = "f16",
    pages: str = "f16",
    is_biased: bool = False,
    lead: int = 0,
    seed: int = 0,
) -> Problem:
    """Make a problem; `chunks` are pairs of new tokens and all tokens.

    With `lead`, values are the ends of keys, behind so many elements.
    """
    head_size += lead
    random = torch.Generator().manual_seed(seed)
    needed = [-(-length // PAGE) for _, length in chunks]
    order = torch.randperm(sum(needed) + 2, generator=random)
    shape = (len(order), PAGE, kv_heads, head_size)
    longest = max(length for _, length in chunks)
    bias = make_bias(kv_heads, head_size, longest) if is_biased else None
    key_pages, value_pages = make_pages(pages, shape, bias), make_pages(pages, shape)
    tables = torch.full((len(chunks), max(needed) + 2), 10**8, dtype=torch.int32)
    given = 0
    for index, ((_, length), count) in enumerate(zip(chunks, needed, strict=True)):
        tables[index, :count] = order[given : given + count]
        given += count
        places = torch.arange(length)
        slots = tables[index, places // PAGE].long() * PAGE + places % PAGE
        key, value = torch.randn(2, length, kv_heads, head_size, generator=random)
        value = value[:, :0] if lead else value
        if bias is not None:
            key = key + bias.at(places)
        kv_append_reference(key, value, key_pages, value_pages, slots, places)
    if lead:
        value_pages = last_elements(key_pages, head_size - lead)
    starts = torch.tensor([0, *(tokens for tokens, _ in chunks)]).cumsum(0).int()
    heads = group * kv_heads
    # A slice of wider rows, as in the output of a fused QKV projection.
    wide = torch.randn(int(starts[-1]), heads + 2, head_size, generator=random)
    rows = wide.to(FLOATS[query])
    bias_query = None if bias is None else make_bias_query(rows[:, :heads], bias.bias)
    if isinstance(key_pages, QuantizedKVPages):
        rows = hadamard_reference(rows).to(FLOATS[query])
        if bias is not None:
            bias_query = make_bias_query(hadamard_reference(rows[:, :heads]), bias.bias)
    step = AttentionMetadata(
        torch.empty(0, dtype=torch.int64),
        torch.empty(0, dtype=torch.int64),
        tables,
        torch.tensor([length for _, length in chunks], dtype=torch.int32),
        starts,
        max(tokens for tokens, _ in chunks),
        longest,
    )
    return Problem(rows[:, :heads], bias_query, key_pages, value_pages, step)
