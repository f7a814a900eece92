"""Queries, keys and values from their projections to where attention reads them."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_float, c_int

import torch

from .arguments import ELEMENT_TYPES, pointer
from .attention_input import AttentionInput
from .hadamard import hadamard_reference
from .kernel_library import KernelLibrary
from .key_bias import KeyBias
from .kv_append import kv_append_reference
from .launch import Argument
from .pages import Pages
from .quantized_pages import QuantizedPages
from .rope import rope_reference

_WARPS = 4
_LARGEST_HEAD = 256
# As csrc/head.cuh numbers pages of codes.
_CODES = {torch.int8: 3, torch.uint8: 4}


def rope_append_reference(
    x: AttentionInput,
    key_pages: Pages,
    value_pages: Pages,
    slot_mapping: torch.Tensor,
    positions: torch.Tensor | None = None,
) -> torch.Tensor | None:
    """Bring to length, rotate to positions, and store: queries in place, the rest in pages.

    Everything from the elements of `x` to those of the pages is computed in float32 and rounded
    once. `slot_mapping` and `positions` (tokens,) int64 are those of `kv_append`. Where pages are
    quantised, queries are rotated once more (`hadamard`), as keys in them are. Where these keys are
    stored without a bias, `positions` are needed, and the result is the bias query
    (tokens, heads, 2 * pairs) float32: its product with `[cosine | sine]` of a key's position is
    what the bias adds to the key's score before it is scaled, up to a constant of the query (of
    elements that do not rotate), which a softmax without a soft cap does not see. Elsewhere there
    is no result.
    """
    query = _normalised(x.query, x.query_norm, x.epsilon)
    key = _normalised(x.key, x.key_norm, x.epsilon)
    if x.cosine is not None:
        assert x.sine is not None
        rope_reference(query, key, x.cosine, x.sine)
    kv_append_reference(key, x.value, key_pages, value_pages, slot_mapping, positions)
    bias_query = None
    if isinstance(key_pages, QuantizedPages):
        if key_pages.bias is not None:
            bias_query = _bias_query(query, key_pages.bias)
        query = hadamard_reference(query)
    x.query.copy_(query)
    return bias_query


def _normalised(heads: torch.Tensor, norm: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    """A float32 copy; squares are summed up as a tree of neighbours, which is part of the contract.

    Codes are rounded from what comes of it, and are to be the same wherever they are made.
    """
    exact = heads.to(torch.float32, copy=True)
    if norm is None:
        return exact
    size = heads.shape[-1]
    sums = torch.nn.functional.pad(exact.square(), (0, _LARGEST_HEAD - size))
    while sums.shape[-1] > 1:
        sums = sums[..., 0::2] + sums[..., 1::2]
    # `sqrt` is not always the nearest; this is a quotient of what is.
    return exact * torch.rsqrt(sums / size + epsilon) * norm


def _bias_query(query: torch.Tensor, bias: KeyBias) -> torch.Tensor:
    pairs, group = bias.cosine.shape[1], query.shape[1] // bias.bias.shape[0]
    first, second = query[..., :pairs], query[..., pairs : 2 * pairs]
    own = bias.bias.repeat_interleave(group, 0)
    with_first, with_second = own[:, :pairs], own[:, pairs : 2 * pairs]
    return torch.cat(
        (
            first * with_first + second * with_second,
            second * with_first - first * with_second,
        ),
        -1,
    )


class RopeAppend:
    """`rope_append_reference` in one launch, bit for bit; see csrc/rope_append.cuh.

    Nothing is read where a token is padding but its slot, and nothing written but there.
    """

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def __call__(
        self,
        x: AttentionInput,
        key_pages: Pages,
        value_pages: Pages,
        slot_mapping: torch.Tensor,
        positions: torch.Tensor | None = None,
        *,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor | None:
        """See `rope_append_reference`; `out` is room for the bias query.

        Heads are of a multiple of 8 elements, 256 at most. Raises `ValueError` where shapes do not
        fit.
        """
        tokens, heads, size = x.query.shape
        kv_heads = x.key.shape[1]
        _check(x, key_pages, value_pages, slot_mapping)
        bias = key_pages.bias if isinstance(key_pages, QuantizedPages) else None
        bias_query = None if bias is None else _room(x, bias, positions, out)
        arguments = [
            *_inputs(x),
            c_int(heads),
            c_int(kv_heads),
            c_int(size),
            pointer(slot_mapping),
            *_page_arguments(key_pages, value_pages),
            pointer(positions),
            *_bias_arguments(bias),
            pointer(bias_query),
        ]
        if tokens == 0:
            return bias_query
        grid = (tokens, -(-(heads + 2 * kv_heads) // _WARPS), 1)
        kernel = f"rope_append_{128 if size <= 128 else 256}"
        self._library.launch("rope_append.cuh", kernel, grid, (32 * _WARPS, 1, 1), arguments)
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


def _page_arguments(key_pages: Pages, value_pages: Pages) -> Sequence[Argument]:
    arguments: list[Argument] = []
    for pages in (key_pages, value_pages):
        quantized = isinstance(pages, QuantizedPages)
        arguments.append(pointer(pages.codes if quantized else pages))
        arguments.append(pointer(pages.scales if quantized else None))
    return [*arguments, c_int(_type_of(key_pages))]


def _bias_arguments(bias: KeyBias | None) -> Sequence[Argument]:
    parts = (None, None, None) if bias is None else (bias.bias, bias.cosine, bias.sine)
    return [pointer(part) for part in parts]


def _type_of(pages: Pages) -> int:
    if isinstance(pages, QuantizedPages):
        return _CODES[pages.codes.dtype]
    return ELEMENT_TYPES[pages.dtype]


def _check(
    x: AttentionInput, key_pages: Pages, value_pages: Pages, slot_mapping: torch.Tensor
) -> None:
    tokens, heads, size = x.query.shape
    kv_heads = x.key.shape[1]
    if size % 8 or size > _LARGEST_HEAD or heads % kv_heads:
        raise ValueError(f"{heads} heads of {size} elements do not fit {kv_heads} of keys.")
    for part in (x.query, x.key, x.value):
        count = heads if part is x.query else kv_heads
        apart = part.stride(2) != 1 or (count > 1 and part.stride(1) != size)
        if part.shape != (tokens, count, size) or apart:
            raise ValueError(f"Heads {tuple(part.shape)} of strides {part.stride()} do not fit.")
        odd = part.data_ptr() % (4 * part.element_size())
        if odd or (tokens > 1 and part.stride(0) % 4):
            raise ValueError("Four elements of a head have to lie at a multiple of their size.")
    for pages in (key_pages, value_pages):
        plane = pages.codes if isinstance(pages, QuantizedPages) else pages
        if pages.shape[2:] != (kv_heads, size) or not plane.is_contiguous():
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
    for table in (x.cosine, x.sine):
        if table is None:
            continue
        fits = len(table) == tokens and 2 * table.shape[1] <= size and table.is_contiguous()
        if not fits or table.dtype != torch.float32:
            raise ValueError(f"A table {tuple(table.shape)} does not fit heads of {size}.")


def _room(
    x: AttentionInput, bias: KeyBias, positions: torch.Tensor | None, out: torch.Tensor | None
) -> torch.Tensor:
    tokens, heads, _ = x.query.shape
    pairs = 0 if x.cosine is None else x.cosine.shape[1]
    if positions is None or bias.cosine.shape[1] != pairs or bias.bias.shape != x.key.shape[1:]:
        raise ValueError("The bias of these keys needs positions, and tables of as many pairs.")
    shape = tokens, heads, 2 * pairs
    if out is None:
        return torch.empty(shape, dtype=torch.float32, device=x.query.device)
    if out.shape != shape or out.dtype != torch.float32 or not out.is_contiguous():
        raise ValueError(f"{tuple(out.shape)} is no room for a bias query {shape}.")
    return out
