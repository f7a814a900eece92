"""The book of a pool of pages."""

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
    """A sequence that fills pages with these tokens, and ends."""
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


def test_tokens_in_common_are_counted_whole() -> None:
    # Ids that differ in one byte only have three in common, but not a token.
    assert common_tokens(packed(1, 2, 3), packed(1, 2, 259)) == 2
    assert common_tokens(packed(1, 2), packed(1, 2, 3)) == 2
    assert common_tokens(b"", packed(1)) == 0
    assert common_tokens(packed(1, 2, 3), packed(1, 2, 3), 2) == 3
    assert common_tokens(packed(1, 9), packed(1, 2), 1) == 1


def test_what_is_the_same_is_kept_once() -> None:
    pages = BlockManager(10, SIZE)
    first = fill(pages, *range(10))
    assert (pages.num_cached, len(list(pages.free_blocks))) == (3, 7)
    again = fill(pages, *range(10))
    assert again is first
    assert (pages.num_cached, len(list(pages.free_blocks))) == (3, 7)
    fill(pages, *range(8), 20, 21)
    assert (pages.num_cached, len(list(pages.free_blocks))) == (4, 6)


def test_the_longest_prefix_ends_at_any_token() -> None:
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


def test_a_page_that_ends_there_is_found_before_a_longer_one() -> None:
    pages = BlockManager(10, SIZE)
    fill(pages, *range(8))
    end = fill(pages, 0, 1, 2, 3, 4, 5)
    assert pages.find(packed(*range(6), 77))[1:] == (end, 2)
    assert pages.find(packed(*range(6)))[1:] == (end, 2)


def test_the_least_recently_used_goes_first_from_its_end() -> None:
    gone: list[int] = []
    pages = BlockManager(6, SIZE, lambda page: gone.append(page.tokens[0]))
    fill(pages, *range(10, 18))
    fill(pages, *range(20, 28))
    reused, _, _ = pages.find(packed(*range(10, 18)))
    pages.acquire(reused)
    pages.release(reused, public=True)
    while pages.evict_oldest():
        pass
    assert gone == [24, 20, 14, 10]
    assert (len(list(pages.free_blocks)), pages.num_cached, pages.num_used) == (6, 0, 0)


def test_nothing_gives_way_that_somebody_runs_on() -> None:
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


def test_a_page_to_copy_from_does_not_give_way_for_the_copy() -> None:
    pages = BlockManager(2, SIZE)
    end = fill(pages, 1, 2, 3)
    assert pages.allocate() is not None
    assert pages.allocate_beside(end) is None
    assert end.is_evictable
    assert pages.take_over(end) >= 0
    assert (pages.num_used, pages.num_cached) == (2, 0)
    assert pages.find(packed(1, 2, 3))[2] == 0


def test_the_order_of_use_stays_small_however_often_pages_are_used() -> None:
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


def test_what_is_private_stays_so_until_somebody_else_says_the_same() -> None:
    pages = BlockManager(8, SIZE)
    end = fill(pages, *range(8), public=False)
    assert [page.public for page in end.path()] == [0, 0]
    fill(pages, *range(4), 9, 9, 9, 9)
    assert [page.public for page in end.path()] == [4, 0]
