"""The KV cache manager of a `PagedRunner`: the pages of each sequence's tokens."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ...base.kv_page_map import KVPageMap
from ..batch import Batch
from ..kv_cache import MIN_SHARED, KVCache, Prefix, Tokens
from ..kv_store.kv_chunk_file import CHUNK_TOKENS
from ..kv_store.kv_store import KVStore
from ..model_runner import PagedRunner
from ..sequence import Sequence
from .block_manager import Block, BlockManager, common_tokens
from .page_map import FREE, PageGroups, Trace, remember

_SPILL_SECONDS = 0.2
_TOKEN_BYTES = 4


@dataclass(frozen=True)
class PagedPrefix(Prefix):
    """All up to the end of `page`, and `count` tokens after it that `source` has in one page."""

    page: Block | None = field(default=None, repr=False)
    source: Block | Sequence | None = field(default=None, repr=False)
    count: int = 0


@dataclass(eq=False, slots=True)
class RunningPages:
    """The pages of a running sequence: full ones up to `last`, and `length` tokens in all.

    Of the page it writes to, the first `public` tokens may be stored although it is private; those
    of `trace` ran on it before, and last its own `conversation`.
    """

    last: Block
    length: int
    trace: Trace
    conversation: str
    public: int = 0

    def turn_page(self, last: Block) -> None:
        """Begin a new page after `last`, which is full."""
        self.last = last
        self.trace = (self.conversation,)
        self.public = 0


class PagedCache(KVCache):
    """Allocates pages to sequences, and caches those of finished ones for shared prefixes.

    A sequence fills pages of its own; each one enters the tree of the `BlockManager` as soon as all
    its tokens are recorded, and is shared by every sequence with that prefix. A new sequence also
    gets the tokens it has in common with the page after the last full one: a copy, or the page
    itself if it is unreferenced. A rejected draft only lowers the length. When pages run out, the
    least recently used ones are evicted to the store, if there is one.
    """

    def __init__(self, runner: PagedRunner, store: KVStore | None = None) -> None:
        """Take over the runner's whole cache, emptied."""
        self._size = runner.block_size
        if CHUNK_TOKENS % self._size or runner.num_blocks * self._size < runner.context:
            raise ValueError(f"{runner.num_blocks} pages of {self._size} tokens are no cache")
        super().__init__(runner.num_blocks * self._size, store)
        self._runner = runner
        self.pages = BlockManager(runner.num_blocks, self._size, self._spill)
        """The prefix cache of the pool."""
        self._running: dict[Sequence, RunningPages] = {}
        self._rows = list(reversed(range(runner.slots)))
        self._unsaved: dict[Block, None] = {}  # where sequences ended, the newest last

    @property
    def used(self) -> int:
        """See `KVCache`."""
        return self.pages.num_used * self._size

    @property
    def kept(self) -> int:
        """See `KVCache`."""
        return self.pages.num_cached * self._size

    def room(self, count: int) -> int:
        """Whole pages."""
        return -(-count // self._size) * self._size

    def growth(self, sequence: Sequence, count: int) -> int:
        """What does not fit into the pages the sequence has."""
        has = len(sequence.block_table) * self._size
        return max(0, self.room(sequence.num_launched + count) - has)

    def most(self, sequences: Iterable[Sequence], room: int) -> int:
        """What is left in the pages they have, and whole pages."""
        left = sum(len(s.block_table) * self._size - s.num_launched for s in sequences)
        return left + room // self._size * self._size

    def match(self, tokens: Tokens, minimum: int = MIN_SHARED) -> PagedPrefix:
        """The longest prefix of `tokens` but for its last one; empty below `minimum`."""
        wanted = tokens[:-1].tobytes()
        page, source, count = self.pages.find(wanted)
        rest = wanted[page.end * _TOKEN_BYTES : (page.end + self._size) * _TOKEN_BYTES]
        found: Block | Sequence | None = source
        for sequence, state in self._running.items():
            if state.last is page:
                own = packed_tokens(sequence, page.end, state.length)
                length = common_tokens(own, rest, count)
                if length > count:
                    found, count = sequence, length
        if page.end + count < max(minimum, 1):
            return PagedPrefix()
        active = self.pages.held(page) * self._size
        return PagedPrefix(page.end + count, active, page=page, source=found, count=count)

    def open(self, sequence: Sequence, prefix: Prefix) -> None:
        """See `KVCache`."""
        assert isinstance(prefix, PagedPrefix)
        length = sequence.useful_prefix(prefix.length)
        page = prefix.page or self.pages.root
        while page.end > length:
            assert page.parent is not None
            page = page.parent
        sequence.block_table = self.pages.acquire(page, sequence.conversation)
        label = sequence.conversation
        state = self._running[sequence] = RunningPages(page, page.end, (label,), label)
        if length > page.end:
            self._begin_partly(sequence, state, prefix)
        sequence.slot = self._rows.pop()
        sequence.num_computed = state.length
        self._restore(sequence)

    def _begin_partly(self, sequence: Sequence, state: RunningPages, prefix: PagedPrefix) -> None:
        """Give the sequence a page of its own that begins as the prefix's source does."""
        source = prefix.source
        if isinstance(source, Block):
            whole = source.is_evictable and source.count == prefix.count
            index = None if whole else self.pages.allocate_beside(source)
            if index is not None:
                self._runner.copy_page(source.index, index, prefix.count)
            elif source.is_evictable:
                if not whole:  # where there is no page to copy it into, the rest is given up
                    self._spill(source)
                state.public = min(source.public, prefix.count)
                state.trace = remember(source.trace, state.conversation)
                self._unsaved.pop(source, None)
                index = self.pages.take_over(source)
        else:
            assert source is not None
            index = self.pages.allocate()
            if index is not None:
                number = state.last.end // self._size
                self._runner.copy_page(source.block_table[number], index, prefix.count)
        if index is not None:
            sequence.block_table.append(index)
            state.length += prefix.count

    def _restore(self, sequence: Sequence) -> None:
        """Append what was fetched from the store, as far as it fits."""
        parts, sequence.stored = sequence.stored, []
        last = sequence.whole_pictures(parts[-1].end) if parts else 0
        for part in parts:
            end = min(part.end, last)
            if end <= sequence.num_computed:
                continue
            count = end - part.start
            if part.start != sequence.num_computed or self.growth(sequence, count) > self.available:
                break
            self._cover(sequence, end)
            pages = sequence.block_table[part.start // self._size :]
            if not self._runner.write_pages(pages, count, part.data):
                assert self._store is not None
                self._store.reject(sequence.key_tokens(), part.start)
                self.trim(sequence)
                break
            self.grow(sequence, count)
            self.restored += count

    def reserve(self, batch: Batch) -> None:
        """Give each of the batch's sequences pages for all that is computed of it."""
        for chunk in batch.chunks:
            self._cover(chunk.sequence, chunk.sequence.num_launched + chunk.num_tokens)

    def reserve_drafts(self, sequence: Sequence, count: int) -> bool:
        """Give the sequence pages for `count` tokens that are computed only to draft others.

        False where the next tokens of all running sequences might lack them.
        """
        left = self.available - self.growth(sequence, count)
        if left < len(self._running) * self._size:
            return False
        self._cover(sequence, sequence.num_launched + count)
        return True

    def _cover(self, sequence: Sequence, length: int) -> None:
        table = sequence.block_table
        while len(table) * self._size < length:
            index = self.pages.allocate()
            if index is None:
                raise RuntimeError("more pages were promised than there are")
            table.append(index)

    def grow(self, sequence: Sequence, count: int) -> None:
        """See `KVCache`; pages that are full now can be shared."""
        state = self._running[sequence]
        state.length += count
        sequence.num_computed = state.length
        table = sequence.block_table
        while (end := state.last.end + self._size) <= state.length:
            number = state.last.end // self._size
            tokens = packed_tokens(sequence, state.last.end, end)
            index = table[number]
            state.turn_page(self.pages.add(state.last, tokens, index, state.public, state.trace))
            table[number] = state.last.index

    def trim(self, sequence: Sequence) -> None:
        """Free the pages after the recorded tokens."""
        table = sequence.block_table
        pages = -(-self._running[sequence].length // self._size)
        while len(table) > pages:
            self.pages.free(table.pop())

    def keep(self, sequence: Sequence) -> None:
        """See `KVCache`."""
        self.trim(sequence)
        state = self._running.pop(sequence)
        end = self._add_rest(sequence, state)
        self.pages.release(state.last, public=not sequence.private)
        if self._store is not None and end is not self.pages.root:
            self._unsaved.pop(end, None)
            self._unsaved[end] = None
        self._rows.append(sequence.slot)
        sequence.slot = -1
        sequence.num_computed = 0
        sequence.block_table = []

    def _add_rest(self, sequence: Sequence, state: RunningPages) -> Block:
        """Cache the last page, which is not full; returns the sequence's last cached one."""
        end = state.last
        if state.length == end.end:
            return end
        index = sequence.block_table[-1]
        if state.length < MIN_SHARED:
            self.pages.free(index)
            return end
        tokens = packed_tokens(sequence, end.end, state.length)
        public = state.public if sequence.private else len(tokens) // _TOKEN_BYTES
        return self.pages.add_partial(end, tokens, index, public, state.trace)

    def evict_oldest(self) -> bool:
        """See `KVCache`."""
        return self.pages.evict_oldest()

    def make_light(self) -> None:
        """Nothing is in the way: attention reads a sequence's own pages and no others."""

    @property
    def unsaved(self) -> bool:
        """Whether something kept has not been saved to disk yet."""
        return self._store is not None and self._store.writes_disk and bool(self._unsaved)

    def save(self, seconds: float) -> None:
        """Hand over what is kept to be written, newest first, for about so many seconds.

        Stops early where the disk does not keep up.
        """
        deadline = time.monotonic() + seconds
        for end in reversed(list(self._unsaved)):
            if not self._store_path(end.path(), deadline, to_disk=True):
                return
            del self._unsaved[end]

    def page_map(self) -> KVPageMap:
        """See `KVCache`."""
        groups, owners = PageGroups(), [FREE] * self.pages.num_blocks
        number, last = FREE, self.pages.root
        pages = list(last.children.values())
        while pages:
            page = pages.pop()
            # Mostly it has been through the same as the one before it.
            if (
                page.trace != last.trace
                or page.left_at != last.left_at
                or page.ref_count != last.ref_count
            ):
                number = groups.number(page.trace, page.ref_count > 0, page.left_at)
                last = page
            owners[page.index] = number
            groups.tokens[number] += len(page.tokens) // _TOKEN_BYTES
            pages.extend(page.children.values())
        for sequence, state in self._running.items():
            if own := sequence.block_table[state.last.end // self._size :]:
                number = groups.number(state.trace, True, 0.0)
                groups.tokens[number] += state.length - state.last.end
                for index in own:
                    owners[index] = number
        return groups.map(
            np.array(owners, np.int32),
            self._size,
            store=self._store,
            evicted=self.pages.num_evicted,
        )

    def _spill(self, page: Block) -> None:
        """Store an evicted page and its ancestors in memory."""
        self._unsaved.pop(page, None)
        if self._store is None or page.spilled:
            return
        path = page.path()
        if self._store_path(path, time.monotonic() + _SPILL_SECONDS, to_disk=False):
            for step in path:
                step.spilled = True

    def _store_path(self, path: list[Block], deadline: float, *, to_disk: bool) -> bool:
        def read(start: int, end: int) -> bytes:
            return self._read(path[start // self._size : -(-end // self._size)], end - start)

        tokens = _public_tokens(path)
        return self._store_missing(tokens, read, deadline, to_disk=to_disk)

    def _read(self, pages: list[Block], count: int) -> bytes:
        """What is stored of the first `count` tokens of these pages."""
        return self._runner.read_pages([page.index for page in pages], count)


def packed_tokens(sequence: Sequence, start: int, end: int) -> bytes:
    """Tokens of a sequence as the blocks of the tree have them."""
    if sequence.adapter:
        return sequence.key_tokens(start, end).tobytes()
    return array("i", sequence.token_ids[start:end]).tobytes()


def _public_tokens(path: list[Block]) -> Tokens:
    """The tokens of these pages up to the first that may not be stored."""
    parts: list[bytes] = []
    for page in path:
        parts.append(page.tokens[: page.public * _TOKEN_BYTES])
        if page.public < page.count:
            break
    return np.frombuffer(b"".join(parts), np.int32)
