"""Attention over pages: beside plain torch, and its time at the shape of an 8B model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import torch
from gpu.session import Session

from ingle.kernels.attention.attention_combine import (
    AttentionPartials,
    combine_partials_reference,
    launch_attention_combine,
)
from ingle.kernels.attention.attention_input import AttentionMetadata
from ingle.kernels.attention.attention_variant import attention_variants
from ingle.kernels.attention.paged_attention_reference import paged_attention_reference
from ingle.kernels.attention.triton_attention import TritonAttention
from ingle.kernels.elementwise.activations import ActivationForms, Activations, dequantize_q8
from ingle.kernels.elementwise.rope import rotary_tables
from ingle.kernels.kv_cache.kv_append import hadamard_reference
from ingle.kernels.kv_cache.kv_page_format import KVPageFormat
from ingle.kernels.kv_cache.kv_pages import KeyBias, KVPages, QuantizedKVPages

PAGE = 32
HEADS, KV_HEADS, SIZE = 32, 8, 128
PAGES = ("bf16", "q8_0", "q4_0")
FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16}
TOLERANCES = {"f16": 1e-3, "bf16": 1e-2}
# Each is compiled on first use: enough of them to reach all code.
SIZES = (64, 128)
TYPES = (("f16", "f16"), ("bf16", "bf16"), ("bf16", "q8_0"), ("bf16", "q4_0"))
CONTEXTS, SEQUENCES, PROMPT = (1024, 8192, 32768), (1, 16), 4096
# Tokens of a sequence whose drafts are verified: the sizes that steps are padded to.
VERIFIED, VERIFIED_CONTEXT = (2, 4, 8, 16), 8192
# Pairs of new tokens and all tokens, of several sequences in a step.
STEPS = (
    ((1, 1000), (1, 33), (5, 300)),
    ((130, 300), (40, 40), (1, 70)),
    ((1, 1100), (3, 40), (1, 64)),
)
# Sequences that decode together: one long one among short ones, and equal ones.
MIXTURES = ((32768, *[512] * 15), (8192,) * 16)
# Sequences whose parts the launch itself combines, and how often the result has to be the same.
COMBINED, REPEATS = ((300,), (1100, 64)), 100


@dataclass(frozen=True)
class Problem:
    """One layer's attention of a step; queries of quantised pages are rotated."""

    query: torch.Tensor
    key_pages: KVPages
    value_pages: KVPages
    step: AttentionMetadata
    bias_query: torch.Tensor | None = None
    window: int | None = None
    soft_cap: float | None = None

    def launch(self, attention: TritonAttention, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return the whole output."""
        return combine_partials_reference(self.attend(attention, out))

    def attend(
        self,
        attention: TritonAttention,
        out: torch.Tensor | None = None,
        wanted: ActivationForms | None = None,
    ) -> AttentionPartials:
        """Return the output in parts, or combined to the `wanted` forms."""
        return attention.attend(
            self.query,
            self.bias_query,
            self.key_pages,
            self.value_pages,
            self.step,
            scale=1 / math.sqrt(self.query.shape[2]),
            window=self.window,
            soft_cap=self.soft_cap,
            out=out,
            wanted=wanted,
        )

    def expected(self) -> torch.Tensor:
        """The same by plain torch in float32."""
        step, rotated = self.step, isinstance(self.key_pages, QuantizedKVPages)
        query = hadamard_reference(self.query.float()) if rotated else self.query.float()
        output = paged_attention_reference(
            query,
            self.key_pages,
            self.value_pages,
            step.block_tables,
            step.context_lengths,
            step.query_starts,
            scale=1 / math.sqrt(query.shape[2]),
            window=self.window,
            soft_cap=self.soft_cap,
        )
        return hadamard_reference(output) if rotated else output


def run(session: Session) -> dict[str, object]:
    """Microseconds of decoding by pages, sequences and context; of mixtures, drafts, a prompt."""
    decoding: list[dict[str, Any]] = []
    for pages in PAGES:
        for sequences in SEQUENCES:
            for context in CONTEXTS:
                if session.seconds_left > 15:
                    decoding.append(_decoding(session, pages, sequences, context))
    return {
        "decoding": decoding,
        "mixtures": [_mixture(session, pages, each) for pages in PAGES for each in MIXTURES],
        "drafts": [_drafts(session, pages, tokens) for pages in PAGES for tokens in VERIFIED],
        "combined": [_combining(session, pages, keys) for pages in PAGES for keys in CONTEXTS],
        "prompt": [_prompt(session, pages) for pages in PAGES],
    }


def table(result: dict[str, Any]) -> list[str]:
    """Return lines for people."""
    lines = [
        f"{row['pages']:<5} {row['sequences']:>3} x {row['context']:>6} tokens: "
        f"{row['us']:>9.1f} us, {row['gb_s']:>7.1f} GB/s"
        for row in result["decoding"]
    ]
    lines += [
        f"{row['pages']:<5} {row['sequences']:>3} sequences of up to {row['longest']} tokens: "
        f"{row['us']:>7.1f} us, {row['us_alike']:.1f} us with as many splits for each"
        for row in result["mixtures"]
    ]
    lines += [
        f"{row['pages']:<5} {row['tokens']:>3} tokens to verify: {row['us']:>7.1f} us, "
        f"{row['us_padded']:.1f} us when padded to {max(VERIFIED)}"
        for row in result["drafts"]
    ]
    lines += [
        f"{row['pages']:<5} {row['context']:>6} tokens to int8: {row['us']:>7.1f} us, "
        f"{row['us_apart']:.1f} us with a launch that combines the parts"
        for row in result["combined"]
    ]
    return lines + [
        f"{row['pages']:<5} {PROMPT} at once: {row['us']:>8.1f} us, {row['tflops']:>6.1f} TFLOP/s;"
        f" torch's attention {row['torch_us']:.1f} us"
        for row in result["prompt"]
    ]


def wrong_attention(session: Session) -> Iterator[str]:
    """Yield deviations from plain torch beyond 16-bit rounding."""
    sizes, types = (SIZES[:1], TYPES[:1]) if session.on_cpu else (SIZES, TYPES)
    variants = [
        each
        for each in attention_variants()
        if each.head_size in sizes and (each.query, each.pages) in types and not each.lead
    ]
    library = session.compiled(variants)
    attention = TritonAttention(library, session.device, fill=math.nan)
    shapes = sorted({(each.head_size, each.query, each.pages, each.pairs) for each in variants})
    for size, query, pages, pairs in shapes:
        tolerance = max(TOLERANCES[query], TOLERANCES.get(pages, 1e-3))
        for chunks, window, soft_cap in product(STEPS, (None, 40), (None, 5.0)):
            problem = make_problem(
                session, chunks, pages, query=query, heads=8, kv_heads=2, size=size
            )
            if pairs and soft_cap:
                continue
            problem = replace(problem, window=window, soft_cap=soft_cap)
            problem = _biased(problem) if pairs else problem
            found, expected = problem.launch(attention), problem.expected()
            if not torch.allclose(found, expected, rtol=tolerance, atol=tolerance):
                worst = float((found - expected).abs().max())
                what = f"{query} heads of {size} in {pages} pages, {pairs} pairs with biases"
                yield f"attention of {what}, {chunks}, window {window}, {soft_cap}: {worst:.1e}"
        if not pairs:
            yield from _wrong_combining(session, attention, size, query, pages)


def _wrong_combining(
    session: Session, attention: TritonAttention, size: int, query: str, pages: str
) -> Iterator[str]:
    """Yield where parts that the launch itself combines are wrong, or not always the same."""
    tolerance = max(TOLERANCES[query], TOLERANCES.get(pages, 1e-3))
    wanted = ActivationForms(FLOATS[query], tiles=True)
    for lengths in COMBINED:
        chunks = [(1, length) for length in lengths]
        problem = make_problem(session, chunks, pages, query=query, heads=8, kv_heads=2, size=size)
        expected = problem.expected()
        expected = (expected if pages in FLOATS else hadamard_reference(expected)).flatten(1)
        seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        for _ in range(REPEATS):
            found = problem.attend(attention, wanted=wanted).combined
            assert found is not None
            assert found.dense is not None
            assert found.tiles is not None
            seen.append((found.dense.float(), dequantize_q8(found.tiles, found.size).float()))
        what = f"combined parts of {query} heads of {size} in {pages} pages, {lengths}"
        if not all(torch.equal(a, b) for each in seen for a, b in zip(each, seen[0], strict=True)):
            yield f"{what}: they differ from one launch to the next"
        rounding = float(expected.abs().max()) / 127
        for values, error in zip(seen[0], (tolerance, tolerance + rounding), strict=True):
            if not torch.allclose(values, expected, rtol=tolerance, atol=error):
                yield f"{what}: {float((values - expected).abs().max()):.1e}"


def _biased(problem: Problem) -> Problem:
    """Keys without a bias as large as some that Qwen 2 has."""
    pages, query = problem.key_pages, problem.query
    assert isinstance(pages, QuantizedKVPages)
    kv_heads, size = pages.shape[2:]
    random = torch.Generator().manual_seed(size)
    bias = (torch.randn(kv_heads, size, generator=random) * 20).to(query.device)
    bias[:, 3] = 150
    frequencies = 1e6 ** -(torch.arange(size // 2, device=query.device) / (size // 2))
    positions = torch.arange(problem.step.longest_context, device=query.device)
    tables = rotary_tables(positions, frequencies, 1.0)
    q1, q2 = hadamard_reference(query.float()).chunk(2, -1)
    b1, b2 = bias.repeat_interleave(query.shape[1] // kv_heads, 0).chunk(2, -1)
    return replace(
        problem,
        key_pages=replace(pages, bias=KeyBias(bias, *tables)),
        bias_query=torch.cat((q1 * b1 + q2 * b2, q2 * b1 - q1 * b2), -1),
    )


def make_problem(
    session: Session,
    chunks: Sequence[tuple[int, int]],
    pages: str,
    *,
    query: str = "bf16",
    heads: int = HEADS,
    kv_heads: int = KV_HEADS,
    size: int = SIZE,
) -> Problem:
    """Random numbers in shuffled pages, on the session's device."""
    random = torch.Generator().manual_seed(size)
    needed = [-(-length // PAGE) for _, length in chunks]
    order = torch.randperm(sum(needed), generator=random).int()
    tables = torch.zeros(len(chunks), max(needed), dtype=torch.int32)
    given = 0
    for row, count in zip(tables, needed, strict=True):
        row[:count] = order[given : given + count]
        given += count
    shape = len(order), PAGE, kv_heads, size
    counts = torch.tensor([0, *(tokens for tokens, _ in chunks)])
    rows = torch.randn(int(counts.sum()), heads, size, generator=random)
    nothing = torch.empty(0, dtype=torch.int64)
    step = AttentionMetadata(
        nothing,
        nothing,
        tables.to(session.device),
        torch.tensor([length for _, length in chunks], dtype=torch.int32, device=session.device),
        counts.cumsum(0).int().to(session.device),
        max(tokens for tokens, _ in chunks),
        max(length for _, length in chunks),
    )
    return Problem(
        rows.to(session.device, FLOATS[query]),
        _pages(session, pages, shape, 1),
        _pages(session, pages, shape, 2),
        step,
    )


def _pages(session: Session, kind: str, shape: tuple[int, int, int, int], seed: int) -> KVPages:
    random = torch.Generator(session.device).manual_seed(seed)
    if kind in FLOATS:
        return torch.randn(shape, generator=random, device=session.device, dtype=FLOATS[kind])
    form = KVPageFormat({"q8_0": 8, "q4_0": 4}[kind], shape[-1])
    codes = torch.randint(
        0, 256, (*shape[:-1], form.code_bytes), generator=random, device=session.device
    ).to(torch.uint8)
    scales = torch.rand(*shape[:-1], form.blocks, generator=random, device=session.device)
    largest = 2.0 ** (form.bits - 1)
    typed = codes.view(torch.int8) if form.bits == 8 else codes
    return QuantizedKVPages(typed, (scales * 2 / largest).half())


def _attention(session: Session, pages: str, *, balance: bool = True) -> TritonAttention:
    variants = [
        each
        for each in attention_variants()
        if (each.head_size, each.query, each.pages, each.pairs) == (SIZE, "bf16", pages, 0)
        and not each.lead
    ]
    return TritonAttention(session.compiled(variants), session.device, balance=balance)


def _launches(attention: TritonAttention, problem: Problem) -> list[Callable[[], object]]:
    """Kernels alone: parts are put together by a kernel of its own, which `heads` measures."""
    call = partial(problem.attend, attention, torch.empty_like(problem.query))
    return [call] * 4


def _decoding(session: Session, pages: str, sequences: int, context: int) -> dict[str, Any]:
    problem = make_problem(session, [(1, context)] * sequences, pages)
    seconds = session.time(_launches(_attention(session, pages), problem))
    head = 2 * SIZE if pages in FLOATS else KVPageFormat({"q8_0": 8, "q4_0": 4}[pages], SIZE).nbytes
    read = 2 * sequences * context * KV_HEADS * head
    return {
        "pages": pages,
        "sequences": sequences,
        "context": context,
        "us": round(seconds * 1e6, 1),
        "gb_s": round(read / seconds / 1e9, 1),
    }


def _mixture(session: Session, pages: str, lengths: tuple[int, ...]) -> dict[str, Any]:
    """All keys divided among the programs, and each sequence with as many splits as the others."""
    problem = make_problem(session, [(1, length) for length in lengths], pages)
    times = [
        session.time(_launches(_attention(session, pages, balance=balance), problem))
        for balance in (True, False)
    ]
    return {
        "pages": pages,
        "sequences": len(lengths),
        "longest": max(lengths),
        "us": round(times[0] * 1e6, 1),
        "us_alike": round(times[1] * 1e6, 1),
    }


def _drafts(session: Session, pages: str, tokens: int) -> dict[str, Any]:
    """One sequence, with the bound of its own query bucket and with the largest one."""
    attention = _attention(session, pages)
    problem = make_problem(session, [(tokens, VERIFIED_CONTEXT)], pages)
    padded = replace(problem, step=replace(problem.step, longest_query=max(VERIFIED)))
    times = [session.time(_launches(attention, each)) for each in (problem, padded)]
    return {
        "pages": pages,
        "tokens": tokens,
        "us": round(times[0] * 1e6, 1),
        "us_padded": round(times[1] * 1e6, 1),
    }


def _combining(session: Session, pages: str, context: int) -> dict[str, Any]:
    """One token's attention as bytes: combined by the same launch, and by one of its own."""
    problem, library = make_problem(session, [(1, context)], pages), session.library()
    attention, wanted = _attention(session, pages), ActivationForms(tiles=True)
    out = torch.empty_like(problem.query)

    def apart() -> Activations:
        partials = problem.attend(attention, out)
        rotated = pages not in FLOATS
        return launch_attention_combine(library, partials, rotated=rotated, dense=False, tiles=True)

    ways = (partial(problem.attend, attention, out, wanted), apart)
    times = [session.time([way] * 4) for way in ways]
    return {
        "pages": pages,
        "context": context,
        "us": round(times[0] * 1e6, 1),
        "us_apart": round(times[1] * 1e6, 1),
    }


def _prompt(session: Session, pages: str) -> dict[str, Any]:
    problem = make_problem(session, [(PROMPT, PROMPT)], pages)
    seconds = session.time(_launches(_attention(session, pages), problem))
    query, key, value = (
        torch.randn(1, count, PROMPT, SIZE, device=session.device, dtype=torch.bfloat16)
        for count in (HEADS, KV_HEADS, KV_HEADS)
    )
    plain = partial(
        torch.nn.functional.scaled_dot_product_attention,
        query,
        key,
        value,
        is_causal=True,
        enable_gqa=True,
    )
    operations = 2 * 2 * HEADS * SIZE * PROMPT * PROMPT / 2
    return {
        "pages": pages,
        "us": round(seconds * 1e6, 1),
        "tflops": round(operations / seconds / 1e12, 1),
        "torch_us": round(session.time([plain] * 4) * 1e6, 1),
    }
