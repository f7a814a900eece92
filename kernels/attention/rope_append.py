"""RMS norm, RoPE and append: queries, keys and values from projections to KV pages."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_float, c_int
from dataclasses import replace

import torch

from ..elementwise.rope import rope_reference
from ..kv_cache.kv_append import hadamard_reference, kv_append_reference
from ..kv_cache.kv_pages import KVPages, QuantizedKVPages, page_planes
from ..launch.cuda_driver import Argument
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .attention_input import AttentionInput

_WARPS = 4
_LARGEST_HEAD, _LARGEST_NORMALISED = 640, 512
# The numbers of quantised pages in csrc/head.cuh.
_CODES = {torch.int8: 3, torch.uint8: 4}


def rope_append_reference(
    x: AttentionInput,
    key_pages: KVPages,
    value_pages: KVPages,
    slot_mapping: torch.Tensor,
) -> torch.Tensor | None:
    """RMS-norm and rotate queries in place; append keys and values to the pages.

    Everything from the elements of `x` to those of the pages is computed in float32 and rounded
    once. `slot_mapping` (tokens,) int64 is that of `kv_append`. For quantised pages, queries get
    the rotation of `hadamard` as well, as keys in them do. If the pages store keys without a bias,
    `x.key_bias` is not added to them, and the result is the bias query (tokens, heads, 2 * pairs)
    float32: its product with `[cosine | sine]` of a key's position is what the bias adds to the
    key's score before scaling, up to a constant of the query (of elements without RoPE), which a
    softmax without a soft cap ignores. Otherwise the result is None. Without key heads nothing is
    appended, without value heads only keys are.
    """
    query = _normalised(x.query, x.query_norm, x.epsilon)
    bias = stored_without(key_pages, x)
    key = x.key if x.key_bias is None or bias is not None else x.key.float() + x.key_bias
    key = _normalised(key, x.key_norm, x.epsilon)
    if x.cosine is not None:
        assert x.sine is not None
        rope_reference(query, key, x.cosine, x.sine)
    bias_query = None
    if isinstance(key_pages, QuantizedKVPages):
        key_pages = replace(key_pages, bias=None)
        pairs = 0 if x.cosine is None else x.cosine.shape[1]
        bias_query = None if bias is None else _bias_query(query, bias, pairs)
        query = hadamard_reference(query)
    if key.shape[1]:
        kv_append_reference(key, x.value, key_pages, value_pages, slot_mapping)
    x.query.copy_(query)
    return bias_query


def stored_without(key_pages: KVPages, x: AttentionInput) -> torch.Tensor | None:
    """The bias of `x` if the pages store keys without one.

    Raises `ValueError` if `x` has none, since its keys may include it already.
    """
    if not isinstance(key_pages, QuantizedKVPages) or key_pages.bias is None:
        return None
    if x.key_bias is None or x.key_bias.shape != key_pages.bias.bias.shape:
        raise ValueError("Pages without a bias want it beside the keys, not in them.")
    return x.key_bias


def _normalised(heads: torch.Tensor, norm: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    """A float32 copy; squares are summed as a tree of neighbours, which is part of the contract.

    Codes are rounded from the result and must be equal on every device.
    """
    exact = heads.to(torch.float32, copy=True)
    if norm is None:
        return exact
    size = heads.shape[-1]
    sums = torch.nn.functional.pad(exact.square(), (0, _LARGEST_NORMALISED - size))
    while sums.shape[-1] > 1:
        sums = sums[..., 0::2] + sums[..., 1::2]
    # `sqrt` is not always correctly rounded; this quotient is.
    return exact * torch.rsqrt(sums / size + epsilon) * norm


def _bias_query(query: torch.Tensor, bias: torch.Tensor, pairs: int) -> torch.Tensor:
    first, second = query[..., :pairs], query[..., pairs : 2 * pairs]
    own = bias.repeat_interleave(query.shape[1] // len(bias), 0)
    with_first, with_second = own[:, :pairs], own[:, pairs : 2 * pairs]
    return torch.cat(
        (
            first * with_first + second * with_second,
            second * with_first - first * with_second,
        ),
        -1,
    )


def launch_rope_append(
    library: KernelLibrary,
    x: AttentionInput,
    key_pages: KVPages,
    value_pages: KVPages,
    slot_mapping: torch.Tensor,
) -> torch.Tensor | None:
    """`rope_append_reference` in one launch, bit for bit; see csrc/rope_append.cuh.

    Of padding tokens only the slot is read, and nothing is written for them elsewhere. Heads have a
    multiple of 8 elements, at most 640, or 512 with norms. Raises `ValueError` if shapes do not
    fit.
    """
    tokens, heads, size = x.query.shape
    kv_heads, value_heads = x.key.shape[1], x.value.shape[1]
    _check(x, key_pages, value_pages, slot_mapping)
    bias_query = None
    if stored_without(key_pages, x) is not None:
        pairs = 0 if x.cosine is None else x.cosine.shape[1]
        bias_query = x.query.new_empty(tokens, heads, 2 * pairs, dtype=torch.float32)
    arguments = [
        *_inputs(x),
        c_int(heads),
        c_int(kv_heads),
        c_int(value_heads),
        c_int(size),
        pointer(slot_mapping),
        *map(pointer, (*page_planes(key_pages), *page_planes(value_pages))),
        c_int(_type_of(key_pages)),
        pointer(x.key_bias),
        c_int(bias_query is not None),
        pointer(bias_query),
    ]
    if tokens == 0:
        return bias_query
    grid = (tokens, -(-(heads + kv_heads + value_heads) // _WARPS), 1)
    kernel = f"rope_append_{min(_LARGEST_HEAD, max(128, 1 << (size - 1).bit_length()))}"
    library.launch("rope_append.cuh", kernel, grid, (32 * _WARPS, 1, 1), arguments)
    return bias_query


def _inputs(x: AttentionInput) -> Sequence[Argument]:
    parts = x.query, x.key, x.value
    return [
        *(pointer(part) for part in parts),
        *(c_int(part.stride(0)) for part in parts),
        *(c_int(ELEMENT_TYPES[part.dtype]) for part in parts),
        pointer(x.query_norm),
        pointer(x.key_norm),
        c_float(x.epsilon),
        pointer(x.cosine),
        pointer(x.sine),
        c_int(0 if x.cosine is None else x.cosine.shape[1]),
    ]


def _type_of(pages: KVPages) -> int:
    if isinstance(pages, QuantizedKVPages):
        return _CODES[pages.codes.dtype]
    return ELEMENT_TYPES[pages.dtype]


def _check(
    x: AttentionInput, key_pages: KVPages, value_pages: KVPages, slot_mapping: torch.Tensor
) -> None:
    tokens, heads, size = x.query.shape
    kv_heads, value_heads = x.key.shape[1], x.value.shape[1]
    normed = x.query_norm is not None or x.key_norm is not None
    most = _LARGEST_NORMALISED if normed else _LARGEST_HEAD
    if size % 8 or size > most or (kv_heads and heads % kv_heads):
        raise ValueError(f"{heads} heads of {size} elements do not fit {kv_heads} of keys.")
    parts = (x.query, x.key, x.value)[: 3 if value_heads else 2 if kv_heads else 1]
    for part in parts:
        count = heads if part is x.query else kv_heads
        apart = part.stride(2) != 1 or (count > 1 and part.stride(1) != size)
        if part.shape != (tokens, count, size) or apart:
            raise ValueError(f"Heads {tuple(part.shape)} of strides {part.stride()} do not fit.")
        odd = part.data_ptr() % (4 * part.element_size())
        if odd or (tokens > 1 and part.stride(0) % 4):
            raise ValueError("Four elements of a head have to lie at a multiple of their size.")
    for pages in (key_pages, value_pages) if value_heads or not kv_heads else (key_pages,):
        plane, _ = page_planes(pages)
        wanted = (kv_heads or pages.shape[2], size)
        if pages.shape[2:] != wanted or not plane.is_contiguous():
            raise ValueError(f"Pages {tuple(pages.shape)} do not fit {kv_heads} heads of {size}.")
    if _type_of(key_pages) != _type_of(value_pages):
        raise ValueError("Keys and values have to be stored as the same type.")
    if slot_mapping.shape != (tokens,) or slot_mapping.dtype != torch.int64:
        raise ValueError(f"{tuple(slot_mapping.shape)} {slot_mapping.dtype} are no slots.")
    _check_tables(x, tokens, size)


def _check_tables(x: AttentionInput, tokens: int, size: int) -> None:
    for norm in (x.query_norm, x.key_norm):
        if norm is not None and (norm.shape != (size,) or norm.dtype != torch.float32):
            raise ValueError(f"{tuple(norm.shape)} {norm.dtype} is no norm of {size} elements.")
    bias = x.key_bias
    fits = bias is None or (bias.shape == x.key.shape[1:] and bias.is_contiguous())
    if bias is not None and not (fits and bias.dtype == torch.float32):
        raise ValueError(f"{tuple(bias.shape)} {bias.dtype} is no bias of keys.")
    for table in (x.cosine, x.sine):
        if table is None:
            continue
        fits = len(table) == tokens and 2 * table.shape[1] <= size and table.is_contiguous()
        if not fits or table.dtype != torch.float32:
            raise ValueError(f"A table {tuple(table.shape)} does not fit heads of {size}.")
