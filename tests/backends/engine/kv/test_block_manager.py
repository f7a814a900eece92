"""`BlockManager`: prefix lookup, copy-on-write, LRU eviction and reference counts of blocks."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from ingle.backends.engine.kv.block_manager import Block, BlockManager, common_tokens

pytestmark = pytest.mark.quick

SIZE = 4


def packed(*tokens: int) -> bytes:
    return array("i", tokens).tobytes()


def fill(pages: BlockManager, *tokens: int, public: bool = True) -> Block:
    """Fill blocks with the tokens of a sequence, and release it."""
    page = pages.root
    for start in range(0, len(tokens) - len(tokens) % SIZE, SIZE):
        index = pages.allocate()
        assert index is not None
        page = pages.add(page, packed(*tokens[start : start + SIZE]), index)
    end = page
    if rest := tokens[len(tokens) - len(tokens) % SIZE :]:
        index = pages.allocate()
        assert index is not None
        end = pages.add_partial(page, packed(*rest), index, len(rest))
    pages.release(page, public=public)
    return end


def test_common_prefix_counts_whole_tokens_not_bytes() -> None:
    # Token ids that differ in one byte only share three bytes, but no token.
    assert common_tokens(packed(1, 2, 3), packed(1, 2, 259)) == 2
    assert common_tokens(packed(1, 2), packed(1, 2, 3)) == 2
    assert common_tokens(b"", packed(1)) == 0
    assert common_tokens(packed(1, 2, 3), packed(1, 2, 3), 2) == 3
    assert common_tokens(packed(1, 9), packed(1, 2), 1) == 1


def test_identical_prefixes_are_stored_once() -> None:
    pages = BlockManager(10, SIZE)
    first = fill(pages, *range(10))
    assert (pages.num_cached, len(list(pages.free_blocks))) == (3, 7)
    again = fill(pages, *range(10))
    assert again is first
    assert (pages.num_cached, len(list(pages.free_blocks))) == (3, 7)
    fill(pages, *range(8), 20, 21)
    assert (pages.num_cached, len(list(pages.free_blocks))) == (4, 6)


def test_partial_block_is_public_as_far_as_any_sequence_was() -> None:
    pages = BlockManager(10, SIZE)
    for public, expected in ((0, 0), (2, 2), (0, 2)):
        index = pages.allocate()
        assert index is not None
        block = pages.add_partial(pages.root, packed(1, 2, 3), index, public)
        assert block.public == expected


def test_find_returns_longest_prefix_at_token_granularity() -> None:
    pages = BlockManager(10, SIZE)
    end = fill(pages, *range(10))
    fill(pages, *range(4), 4, 5, 6, 70, 71)
    page, source, count = pages.find(packed(*range(7), 99))
    assert (page.end, count) == (4, 3)
    assert source is not None
    page, source, count = pages.find(packed(*range(12)))
    assert (page.end, source, count) == (8, end, 2)
    page, source, count = pages.find(packed(9, 9))
    assert (page, source, count) == (pages.root, None, 0)


def test_find_prefers_a_partial_block_that_ends_at_the_match() -> None:
    pages = BlockManager(10, SIZE)
    fill(pages, *range(8))
    end = fill(pages, 0, 1, 2, 3, 4, 5)
    assert pages.find(packed(*range(6), 77))[1:] == (end, 2)
    assert pages.find(packed(*range(6)))[1:] == (end, 2)


def test_eviction_is_lru_and_removes_leaves_first() -> None:
    evicted: list[int] = []
    pages = BlockManager(6, SIZE, lambda page: evicted.append(page.tokens[0]))
    fill(pages, *range(10, 18))
    fill(pages, *range(20, 28))
    reused, _, _ = pages.find(packed(*range(10, 18)))
    pages.acquire(reused)
    pages.release(reused, public=True)
    while pages.evict_oldest():
        pass
    assert evicted == [24, 20, 14, 10]
    assert (len(list(pages.free_blocks)), pages.num_cached, pages.num_used) == (6, 0, 0)


def test_referenced_blocks_are_not_evicted() -> None:
    pages = BlockManager(4, SIZE)
    end = fill(pages, *range(8))
    fill(pages, *range(4), 50, 51)
    assert pages.held(end) == 0
    assert len(pages.acquire(end)) == 2
    assert pages.held(end) == 2
    assert (pages.num_used, pages.num_cached) == (2, 1)
    assert pages.allocate() is not None
    assert pages.allocate() is not None
    assert pages.allocate() is None
    assert not pages.evict_oldest()


def test_copy_source_is_not_evicted_for_the_copy() -> None:
    pages = BlockManager(2, SIZE)
    end = fill(pages, 1, 2, 3)
    assert pages.allocate() is not None
    assert pages.allocate_beside(end) is None
    assert end.is_evictable
    assert pages.take_over(end) >= 0
    assert (pages.num_used, pages.num_cached) == (2, 0)
    assert pages.find(packed(1, 2, 3))[2] == 0


def test_lru_heap_stays_bounded_when_blocks_are_reused() -> None:
    pages = BlockManager(8, SIZE)
    ends = [fill(pages, *range(start, start + 6)) for start in (100, 200, 300)]
    for number in range(5000):
        page = ends[number % 3].parent
        assert page is not None
        pages.acquire(page)
        pages.take_over(ends[number % 3])
        index = pages.allocate()
        assert index is not None
        pages.free(index)
        ends[number % 3] = pages.add_partial(page, packed(number, number), pages.num_used - 1, 2)
        pages.release(page, public=True)
    inside: Any = pages
    assert len(inside._oldest) < 80


def test_private_block_becomes_public_when_a_public_sequence_uses_it() -> None:
    pages = BlockManager(8, SIZE)
    end = fill(pages, *range(8), public=False)
    assert [page.public for page in end.path()] == [0, 0]
    fill(pages, *range(4), 9, 9, 9, 9)
    assert [page.public for page in end.path()] == [4, 0]
