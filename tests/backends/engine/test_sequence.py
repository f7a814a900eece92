"""`Sequence`: where pictures allow it to be cut, and the tokens that the cache knows it by."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ingle.backends.base.picture_span import PictureSpan
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.kv_store.kv_chunk_file import CHUNK_TOKENS, StoredPart
from ingle.backends.engine.sequence import MOST_ADAPTERS, Sequence


def picture(start: int, length: int, *, whole: bool = False, axes: bool = False) -> PictureSpan:
    rows = np.zeros((length, 3), np.int32) if axes else None
    return PictureSpan(start, np.zeros((length, 1), np.float32), 1, rows, whole)


def with_pictures(*pictures: PictureSpan, length: int = 20) -> Sequence:
    return Sequence("r", 0, list(range(length)), SamplingParams(), pictures=pictures)


def test_chunks_end_within_no_picture_that_is_computed_whole() -> None:
    sequence = with_pictures(picture(2, 3), picture(6, 4, whole=True), picture(10, 3, whole=True))
    inside = {7: (6, 10), 8: (6, 10), 9: (6, 10), 11: (10, 13), 12: (10, 13)}
    for begin, count, spare in product(range(14), range(1, 10), range(5)):
        if begin in inside:
            continue
        sequence.num_computed = begin
        start, end = inside.get(begin + count, (begin + count, begin + count))
        expected = end if end - begin <= count + spare else max(begin, start)
        assert begin + sequence.fit_chunk(count, count + spare) == expected


def test_cached_tokens_end_within_no_picture() -> None:
    sequence = with_pictures(picture(2, 3), picture(8, 4))
    found = [sequence.whole_pictures(length) for length in range(14)]
    assert found == [0, 1, 2, 2, 2, 5, 6, 7, 8, 8, 8, 8, 12, 13]
    assert found == [sequence.useful_prefix(length) for length in range(14)]


@pytest.mark.parametrize("length", [1, 4, 5, 6, 20])
def test_tokens_from_the_first_picture_with_axes_on_are_not_stored(length: int) -> None:
    assert with_pictures(picture(2, 1), picture(5, 4, axes=True)).storable(length) == min(length, 5)
    assert with_pictures(picture(2, 4)).storable(length) == length


@pytest.mark.parametrize(
    ("start", "end", "cached", "useful"),
    [
        (0, 2, 1.5, 1),  # the stored chunks go on behind what is cached
        (0, 2, 2, 2),
        (0, 2, 2.5, 2.5),
        (2, 3, 1.5, 1.5),  # they begin too late
        (1, 3, 1, 1),
    ],
)
def test_useful_prefix_ends_where_stored_chunks_go_on(
    start: int, end: int, cached: float, useful: float
) -> None:
    sequence = with_pictures(length=4 * CHUNK_TOKENS)
    sequence.stored = [
        StoredPart(part * CHUNK_TOKENS, (part + 1) * CHUNK_TOKENS, CHUNK_TOKENS, b"")
        for part in range(start, end)
    ]
    assert sequence.useful_prefix(int(cached * CHUNK_TOKENS)) == useful * CHUNK_TOKENS


def test_tokens_of_adapters_differ_from_all_others() -> None:
    known: set[int] = set()
    for adapter in (0, 1, 2, MOST_ADAPTERS):
        sequence = Sequence("r", 0, [0, 1, 4_000_000], SamplingParams(), adapter=adapter)
        tokens = sequence.key_tokens()
        assert sequence.key_tokens(1, 2).tolist() == tokens[1:2].tolist()
        assert tokens.min() >= 0
        assert known.isdisjoint(tokens.tolist())
        known.update(tokens.tolist())
