"""Sanitizer cases of the kernels around attention; arrays end where their data ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from .replay import Case

TOKENS, HEADS, KV_HEADS, SLOTS = 2, 3, 1, 4
FLOATS = (np.float32, np.float16, np.uint16)


def rope_append_cases() -> list[Case]:
    """Return all variants of a launch, with plain and quantised pages and heads of any size."""
    return [
        _rope_append(64, 32, 0),
        _rope_append(80, 10, 1),
        _rope_append(128, 64, 3),
        _rope_append(72, 9, 4),
        _rope_append(256, 128, 4),
        _rope_append(136, 0, 2),
        _rope_append(512, 256, 4),
    ]


def _rope_append(size: int, pairs: int, pages: int) -> Case:
    random = np.random.default_rng(size)
    blocks = size // min(32, size & -size)

    def normal(*shape: int) -> NDArray[np.float32]:
        return random.normal(size=shape).astype(np.float32)

    def room() -> tuple[NDArray[np.generic], NDArray[np.generic]]:
        width = size // 2 if pages == 4 else size
        dtype = FLOATS[pages] if pages < 3 else np.uint8
        scales = np.zeros((SLOTS, KV_HEADS, blocks), np.uint16)
        return np.zeros((SLOTS, KV_HEADS, width), dtype), scales

    heads = [
        normal(TOKENS, count, size).astype(np.float16) for count in (HEADS, KV_HEADS, KV_HEADS)
    ]
    strides = [count * size for count in (HEADS, KV_HEADS, KV_HEADS)]
    arguments = (
        *(*heads, *strides, 1, 1, 1, normal(size), normal(size), 1e-6),
        *(normal(TOKENS, pairs), normal(TOKENS, pairs), pairs, HEADS, KV_HEADS, size),
        *(np.array([1, SLOTS - 1]), *room(), *room(), pages),
        *(normal(KV_HEADS, size), int(pages > 2)),
        np.zeros((TOKENS, HEADS, 2 * pairs), np.float32),
    )
    kernel = f"rope_append_{max(128, 1 << (size - 1).bit_length())}"
    return Case(kernel, (TOKENS, 2, 1), (128, 1, 1), arguments)


def attention_combine_cases() -> list[Case]:
    """Return cases with few and many partials, and head sizes with and without a partial group."""
    return [
        _attention_combine(*case)
        for case in ((1, 64, 1, 1), (40, 80, 2, 6), (128, 72, 4, 3), (9, 512, 1, 2))
    ]


def _attention_combine(splits: int, size: int, bundle: int, slices: int) -> Case:
    random = np.random.default_rng(size)
    outputs = random.normal(size=(splits, TOKENS, bundle, size)).astype(np.float32)
    log_sums = random.normal(size=(splits, TOKENS, bundle)).astype(np.float32)
    log_sums[0, 1, 0] = np.inf
    dense = np.ones((TOKENS, bundle, size), np.float16)
    tiles = np.zeros((-(-bundle * size // 1024), TOKENS, 1536), np.uint8)
    arguments = (outputs, log_sums, dense, tiles, splits, bundle, size, bundle, slices, 1, 1, 1)
    threads = -(-slices * bundle * size // 128) * 32
    return Case("attention_combine", (TOKENS, 1, 1), (threads, 1, 1), arguments)


def rotary_tables_cases() -> list[Case]:
    """Return token counts that fill no block, and pair counts that fill no warp."""
    positions, frequencies = np.array([0, 7, 10**6, 3, 9]), np.ones(37, np.float32)
    cosine, sine = np.zeros((2, 5, 37), np.float32)
    arguments = (positions, frequencies, cosine, sine, 5, 37, 1.5)
    return [Case("rotary_tables", (2, 1, 1), (128, 1, 1), arguments)]


ATTENTION_CASES: Mapping[str, Callable[[], list[Case]]] = MappingProxyType(
    {
        "rope_append": rope_append_cases,
        "attention_combine": attention_combine_cases,
        "rotary_tables": rotary_tables_cases,
    }
)
"""By the names of sources."""
