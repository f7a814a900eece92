"""A `ModelRunner` whose cache is a pool of pages that others give out."""

from __future__ import annotations

from typing import Protocol

from ..model_runner import ModelRunner


class PagedRunner(ModelRunner, Protocol):
    """Reads and writes keys and values in the blocks of `Sequence.block_table`.

    Token n of a sequence is in block `block_table[n // block_size]`, at n % `block_size`. When a
    batch is launched, the table covers all that the batch computes of the sequence, drafts too, and
    `slot` is a row number below `slots` that no other running sequence has. Between two launches
    any entry of a table may change: a page that another sequence has too is kept only once. Batches
    and what is copied, read and written take effect in the order in which they were asked for,
    whenever a batch is collected. The book of the pages is `PagedCache`.
    """

    @property
    def block_size(self) -> int:
        """Tokens of a page; the chunks in which keys and values are stored are whole pages."""
        ...

    @property
    def num_blocks(self) -> int:
        """Pages of the pool, numbered from 0; together they hold at least one whole context."""
        ...

    def copy_page(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` tokens of a page to another, after all batches launched so far."""
        ...

    def read_pages(self, pages: list[int], count: int) -> bytes:
        """A copy of the keys and values of the first `count` tokens that lie in these pages."""
        ...

    def write_pages(self, pages: list[int], count: int, data: bytes | memoryview) -> bool:
        """Put the first `count` tokens of what `read_pages` returned into these pages.

        It may have been read for more tokens. False, with nothing of use in the pages, where
        `data` cannot be that.
        """
        ...
