"""Attention in plain torch: norm and RoPE of queries and keys, then paged attention."""

from __future__ import annotations

from typing import cast

import torch
from torch.nn import functional

from ..elementwise.rms_norm import rms_norm_reference
from ..elementwise.rope import rope_reference
from ..kv_cache.kv_append import dequantize_heads_reference, hadamard_reference
from ..kv_cache.kv_pages import KVPages, QuantizedKVPages
from .attention_input import AttentionInput


def norm_rope_reference(
    x: AttentionInput,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values of `x` after norm and RoPE, in their own type.

    Changed heads are new tensors or changed in place.
    """
    biased = x.key if x.key_bias is None else (x.key.float() + x.key_bias).to(x.key.dtype)
    query = _normalized(x.query, x.query_norm, x.epsilon)
    key = _normalized(biased, x.key_norm, x.epsilon)
    if x.cosine is not None and x.sine is not None:
        rope_reference(query, key, x.cosine, x.sine)
    return query, key, x.value


def _normalized(heads: torch.Tensor, weight: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    return heads if weight is None else rms_norm_reference(heads, weight, epsilon, heads.dtype)


def paged_attention_reference(
    query: torch.Tensor,
    key_pages: KVPages,
    value_pages: KVPages,
    block_tables: torch.Tensor,
    context_lengths: torch.Tensor,
    query_starts: torch.Tensor,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: torch.Tensor | None = None,
    last_seen: torch.Tensor | None = None,
) -> torch.Tensor:
    """Causal attention output (tokens, heads, value_size) for consecutive sequences of any lengths.

    Sequence s owns the queries from `query_starts[s]` to `query_starts[s + 1]` (int32): the last
    ones of its `context_lengths[s]` (int32) tokens, whose keys and values are in order in the pages
    `block_tables[s]` (int32, padded). Pages are (num_pages, page_size, kv_heads, head_size), of a
    type of their own, and values may be narrower than keys; a KV head serves heads / kv_heads
    consecutive query heads. A query sees the `window` last tokens, itself included; scores are
    bounded by `soft_cap`. Softmax is in float32; `sinks` (heads,) take their share of it. A query
    sees keys behind it up to the position `last_seen` (tokens,), if given.
    Slots after a sequence's end are never read, not even a NaN; queries that belong to no sequence
    get zeros.

    Quantised keys and values are those of rotated heads: queries are rotated too, and outputs are
    rotated back. The bias that quantised keys are stored without is included in the scores.

    Computes one sequence after the other, so that a result does not depend on the rest of the
    batch.
    """
    output = query.new_zeros(*query.shape[:2], value_pages.shape[3], dtype=torch.float32)
    rotated = hadamard_reference(query) if isinstance(key_pages, QuantizedKVPages) else query
    starts = cast("list[int]", query_starts.tolist())  # pyright: ignore[reportUnknownMemberType]
    lengths = cast("list[int]", context_lengths.tolist())  # pyright: ignore[reportUnknownMemberType]
    page_size = key_pages.shape[1]
    for sequence, length in enumerate(lengths):
        begin, end = starts[sequence], starts[sequence + 1]
        if begin == end:
            continue
        first = 0 if window is None else max(0, length - (end - begin) - window + 1)
        first_page, last_page = first // page_size, -(-length // page_size)
        pages = block_tables[sequence, first_page:last_page]
        skipped = first_page * page_size
        keys = _tokens(key_pages, pages, skipped, length)
        values = _tokens(value_pages, pages, skipped, length)
        output[begin:end] = _attend(
            rotated[begin:end],
            keys,
            values,
            scale=scale,
            window=window,
            soft_cap=soft_cap,
            sinks=sinks,
            last_seen=None if last_seen is None else last_seen[begin:end] - skipped,
        )
    if isinstance(value_pages, QuantizedKVPages):
        output = hadamard_reference(output)
    return output.to(query.dtype)


def _tokens(pages: KVPages, chosen: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    """Tokens `begin` to `end` of a sequence, (kv_heads, tokens, head_size) float32.

    The first of the chosen pages begins with the first of them.
    """

    def gather(plane: torch.Tensor) -> torch.Tensor:
        return plane.index_select(0, chosen).flatten(0, 1)[: end - begin]

    if not isinstance(pages, QuantizedKVPages):
        return gather(pages).transpose(0, 1).float()
    heads = dequantize_heads_reference(gather(pages.codes), gather(pages.scales), pages.format)
    if pages.bias is not None:
        positions = torch.arange(begin, end, device=chosen.device)
        heads = heads + hadamard_reference(pages.bias.at(positions))
    return heads.transpose(0, 1)


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    scale: float,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
    last_seen: torch.Tensor | None,
) -> torch.Tensor:
    """Attention in float32 of the last tokens of one sequence to all of `keys` and `values`."""
    tokens, heads, head_size = query.shape
    kv_heads, length, _ = keys.shape
    group = heads // kv_heads
    # Heads that share keys are consecutive, so that they are rows of one product.
    rows = query.float().view(tokens, kv_heads, group, head_size).permute(1, 2, 0, 3)
    rows = rows.reshape(kv_heads, group * tokens, head_size)
    mask = _mask(tokens, length, window, query.device, last_seen)
    if soft_cap is None and sinks is None:
        tiled = None if mask is None else mask.repeat(group, 1)
        width = values.shape[-1]
        if width < head_size:  # of other sizes than keys, torch would hold all scores at a time
            values = functional.pad(values, (0, head_size - width))
        mixed = functional.scaled_dot_product_attention(
            rows[None], keys[None], values[None], tiled, scale=scale
        )[0, ..., :width]
    else:
        scores = rows @ keys.transpose(1, 2) * scale
        if soft_cap is not None:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        if mask is not None:
            scores = scores.masked_fill(~mask.repeat(group, 1), -torch.inf)
        mixed = _softmax(scores, sinks, tokens) @ values
    mixed = mixed.reshape(kv_heads, group, tokens, -1).permute(2, 0, 1, 3)
    return mixed.reshape(tokens, heads, -1)


def _softmax(scores: torch.Tensor, sinks: torch.Tensor | None, tokens: int) -> torch.Tensor:
    """The weights of scores (kv_heads, group * tokens, length), next to the sink of their head."""
    if sinks is None:
        return torch.softmax(scores, -1)
    each = sinks.view(len(scores), -1).repeat_interleave(tokens, 1)[..., None]
    return torch.softmax(torch.cat((scores, each), -1), -1)[..., :-1]


def _mask(
    tokens: int,
    length: int,
    window: int | None,
    device: torch.device,
    last_seen: torch.Tensor | None,
) -> torch.Tensor | None:
    """The tokens that each query may see (tokens, length); None if it is all of them."""
    if tokens == 1 and (window is None or length <= window):
        return None
    keys = torch.arange(length, device=device)
    positions = torch.arange(length - tokens, length, device=device)[:, None]
    seen = keys <= (positions if last_seen is None else last_seen[:, None])
    return seen if window is None else seen & (keys > positions - window)
