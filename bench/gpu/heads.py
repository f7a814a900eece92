"""Tests and times the kernels around attention: KV append, RoPE tables, reduction of partial
results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from gpu.session import Session

from ingle.kernels.attention.attention_combine import (
    AttentionPartials,
    attention_combine_reference,
    launch_attention_combine,
)
from ingle.kernels.attention.attention_input import AttentionInput
from ingle.kernels.attention.rope_append import launch_rope_append, rope_append_reference
from ingle.kernels.elementwise.activations import dequantize_q8, quantize_q8_reference
from ingle.kernels.elementwise.rope import launch_rotary_tables, rotary_tables
from ingle.kernels.kv_cache.kv_page_format import KVPageFormat
from ingle.kernels.kv_cache.kv_pages import KeyBias, KVPages, QuantizedKVPages

PAGE = 32
KINDS = ("f16", "bf16", "q8_0", "q4_0")
FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16}
# Query heads, key heads, size, elements that rotate.
SHAPES = ((4, 2, 64, 64), (32, 8, 128, 128), (8, 4, 256, 256), (32, 32, 80, 32), (3, 1, 72, 20))
LLAMA = SHAPES[1]
# Of a step, and how many splits of how many tokens.
TOKENS, SPLITS = (1, 16, 4096), ((1, 8), (1, 64), (16, 8), (64, 4))
SUM_TOLERANCE, TABLE_TOLERANCE = 2e-6, 3e-7

Append = tuple[AttentionInput, KVPages, KVPages, torch.Tensor]


def run(session: Session) -> dict[str, object]:
    """Microseconds of each kernel at the shape of an 8B model, and GB/s of many tokens."""
    rows = [*_append_times(session), *_combine_times(session), *_table_times(session)]
    return {"times": rows}


def table(result: dict[str, Any]) -> list[str]:
    """Return lines for people."""
    return [
        f"{row['what']:<34}{row['us']:>9.2f} us{row['gb_s']:>9.1f} GB/s" for row in result["times"]
    ]


def wrong_heads(session: Session) -> Iterator[str]:
    """Where a kernel's bits or sums are not those of its reference on a CPU."""
    yield from _wrong_appends(session)
    yield from _wrong_sums(session)
    positions = torch.tensor([0, 1, 4095, 131_071, 1_000_000], device=session.device)
    rates = (5e5 ** (-torch.arange(64) / 64)).to(session.device)
    angles = positions.double()[:, None] * rates.double()
    exact = angles.cos(), angles.sin()
    found = launch_rotary_tables(session.library(), positions, rates, 1.0)
    for ours, theirs in zip(found, exact, strict=True):
        if not float((ours - theirs).abs().max()) <= TABLE_TOLERANCE:
            yield "tables of angles"


def make_append(
    shape: tuple[int, int, int, int], kind: str, tokens: int, *, bias: bool = False
) -> Append:
    """Random heads with norms, and pages in which their slots are not in order; on the CPU."""
    heads, kv_heads, size, rotated = shape
    random = torch.Generator().manual_seed(size + tokens)

    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=random)

    positions = torch.randint(0, 8000, (tokens,), generator=random)
    rates = 5e5 ** (-torch.arange(rotated // 2) / (rotated // 2))
    counts = heads, kv_heads, kv_heads
    query, key, value = (normal(tokens, count, size).bfloat16() for count in counts)
    norms = (None, None) if bias else (normal(size), normal(size))
    x = AttentionInput(
        query, key, value, *norms, 1e-6, *rotary_tables(positions, rates, 1.0)
    )  # fmt: skip
    every = rotary_tables(torch.arange(8000 if bias else 0), rates, 1.0)
    key_bias = KeyBias(30 * normal(kv_heads, size), *every) if bias else None
    if key_bias is not None:
        x = replace(x, key_bias=key_bias.bias)
    count = -(-tokens // PAGE) + 1
    slots = torch.randperm(count * PAGE, generator=random)[:tokens]
    pages = (_pages(kind, count, kv_heads, size, each) for each in (key_bias, None))
    return x, next(pages), next(pages), slots


def _pages(kind: str, count: int, kv_heads: int, size: int, bias: KeyBias | None) -> KVPages:
    shape = count, PAGE, kv_heads
    if kind in ("f16", "bf16"):
        return torch.zeros(*shape, size, dtype=torch.float16 if kind == "f16" else torch.bfloat16)
    form = KVPageFormat(8 if kind == "q8_0" else 4, size)
    codes = torch.zeros(
        *shape, form.code_bytes, dtype=torch.int8 if form.bits == 8 else torch.uint8
    )
    return QuantizedKVPages(codes, torch.zeros(*shape, form.blocks, dtype=torch.float16), bias)


def _moved(append: Append, device: torch.device) -> Append:
    x, key_pages, value_pages, slots = append
    parts = {
        name: None if part is None else part.to(device, copy=True)
        for name, part in vars(x).items()
        if name != "epsilon"
    }
    moved = replace(x, **parts)  # pyright: ignore[reportArgumentType]
    pages = [_moved_pages(each, device) for each in (key_pages, value_pages)]
    return moved, pages[0], pages[1], slots.to(device)


def _moved_pages(pages: KVPages, device: torch.device) -> KVPages:
    if isinstance(pages, torch.Tensor):
        return pages.to(device, copy=True)
    bias = pages.bias
    if bias is not None:
        bias = KeyBias(*(each.to(device) for each in (bias.bias, bias.cosine, bias.sine)))
    return QuantizedKVPages(
        pages.codes.to(device, copy=True), pages.scales.to(device, copy=True), bias
    )


def _planes(append: Append) -> list[torch.Tensor]:
    planes = [append[0].query]
    for pages in append[1:3]:
        planes += [pages] if isinstance(pages, torch.Tensor) else [pages.codes, pages.scales]
    return planes


def _wrong_appends(session: Session) -> Iterator[str]:
    operation = partial(launch_rope_append, session.library())
    for shape in SHAPES[:1] if session.on_cpu else SHAPES:
        for kind in KINDS:
            for bias in (False, True) if kind.startswith("q") else (False,):
                what = f"appending {kind} {shape}{' with a bias' if bias else ''}"
                expected = make_append(shape, kind, 5 if session.on_cpu else 67, bias=bias)
                given = _moved(expected, session.device)
                wanted, found = rope_append_reference(*expected), operation(*given)
                pairs = [*zip(_planes(given), _planes(expected), strict=True)]
                if found is not None and wanted is not None:
                    pairs.append((found, wanted))
                if not all(torch.equal(ours.cpu(), theirs) for ours, theirs in pairs):
                    yield what


def _wrong_sums(session: Session) -> Iterator[str]:
    combine = partial(launch_attention_combine, session.library())
    for splits, heads, size in ((1, 4, 64), (7, 2, 80), (33, 8, 128), (128, 4, 256), (5, 4, 72)):
        partials = make_partials(splits, 3, heads, size, session.device, torch.float32)
        expected = attention_combine_reference(partials, rotated=True).dense
        found = combine(partials, rotated=True, tiles=True)
        assert expected is not None
        assert found.dense is not None
        assert found.tiles is not None
        what = f"{splits} parts of {heads} heads of {size}"
        if not float((found.dense - expected).abs().max()) <= SUM_TOLERANCE:
            yield what
        wanted = quantize_q8_reference(found.dense.cpu())
        ours, theirs = (dequantize_q8(tiles, heads * size) for tiles in (found.tiles.cpu(), wanted))
        if not torch.equal(ours, theirs):
            yield f"bytes of {what}"


def make_partials(
    splits: int, tokens: int, heads: int, size: int, device: torch.device, dtype: torch.dtype
) -> AttentionPartials:
    """Random parts, of which some saw nothing and hold NaN."""
    random = torch.Generator(device).manual_seed(splits)
    outputs = torch.randn(splits, tokens, heads, size, device=device, generator=random)
    log_sums = torch.randn(splits, tokens, heads, device=device, generator=random)
    if splits > 1:
        log_sums[-1] = -torch.inf
        outputs[-1] = torch.nan
    dense = torch.empty(tokens, heads, size, dtype=dtype, device=device)
    return AttentionPartials(dense, outputs, log_sums)


def _append_times(session: Session) -> Iterator[dict[str, Any]]:
    operation = partial(launch_rope_append, session.library())
    for kind in KINDS:
        for tokens in TOKENS:
            # With many tokens more than a cache holds.
            copies = [
                _moved(make_append(LLAMA, kind, tokens), session.device)
                for _ in range(4 if tokens > 100 else 1)
            ]
            x = copies[0][0]
            stored = sum(plane[0, 0].nbytes for plane in _planes(copies[0])[1:])
            moved = 2 * x.query.nbytes + 2 * x.key.nbytes + tokens * stored
            launches: list[Callable[[], object]] = [partial(operation, *each) for each in copies]
            yield _row(session, f"append to {kind}, {tokens} tokens", launches, moved)


def _combine_times(session: Session) -> Iterator[dict[str, Any]]:
    combine = partial(launch_attention_combine, session.library())
    heads, _, size, _ = LLAMA
    for tokens, splits in SPLITS:
        partials = make_partials(splits, tokens, heads, size, session.device, torch.bfloat16)
        for rotated in (False, True):
            launch = partial(combine, partials, rotated=rotated, dense=False, tiles=True)
            what = f"combine {splits} x {tokens} tokens{', rotated' if rotated else ''}"
            moved = (4 * splits + 1.5) * tokens * heads * size
            yield _row(session, what, [launch], moved)


def _table_times(session: Session) -> Iterator[dict[str, Any]]:
    rates = (5e5 ** (-torch.arange(64) / 64)).to(session.device)
    for tokens in TOKENS[::2]:
        positions = torch.arange(tokens, device=session.device)
        launch = partial(launch_rotary_tables, session.library(), positions, rates, 1.0)
        yield _row(session, f"tables of {tokens} tokens", [launch], 8 * tokens * 64)


def _row(
    session: Session, what: str, launches: list[Callable[[], object]], moved: float
) -> dict[str, Any]:
    few = max(1, 40 // len(launches))
    seconds = session.time(launches * few)
    return {"what": what, "us": round(seconds * 1e6, 2), "gb_s": round(moved / seconds / 1e9, 1)}
