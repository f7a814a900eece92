"""The prefix cache of a block pool: a radix tree of token blocks with reference counts and LRU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from .page_map import Trace, merge_traces, remember

_TOKEN_BYTES = 4
_NOWHERE = -1


@dataclass(eq=False, slots=True)
class Block:
    """A node of the radix tree: an immutable block of tokens that follow those of `parent`.

    `tokens` are int32; `end` counts all tokens from the root to the end of this block. Only full
    blocks have children. `ref_count` counts the running sequences whose tokens it holds. The first
    `public` tokens may be stored; after that it is `spilled` until its next use. `trace` names the
    conversations that used it last, `left_at` is when the last sequence ended (monotonic seconds).
    """

    index: int
    parent: Block | None
    tokens: bytes
    end: int
    public: int = 0
    ref_count: int = 0
    used_at: int = 0
    spilled: bool = False
    trace: Trace = ()
    left_at: float = 0.0
    children: dict[bytes, Block] = field(default_factory=dict[bytes, "Block"], repr=False)

    @property
    def count(self) -> int:
        """The number of tokens in the block."""
        return len(self.tokens) // _TOKEN_BYTES

    @property
    def is_evictable(self) -> bool:
        """Whether it is unreferenced and has no children."""
        return self.index >= 0 and not self.ref_count and not self.children

    def path(self) -> list[Block]:
        """Return the blocks from the root, which is left out, to this one."""
        path: list[Block] = []
        block = self
        while block.parent is not None:
            path.append(block)
            block = block.parent
        path.reverse()
        return path


class BlockManager:
    """A radix-tree prefix cache over the blocks of a KV pool; it handles numbers, not the KV data.

    A block is free, or owned by one running sequence that writes to it, or in the tree, under its
    tokens and all before them, and immutable. Unreferenced blocks of the tree stay cached until
    blocks are needed; the least recently used leaf is evicted first. The tree compares token ids,
    not hashes, so that collisions cannot occur.
    """

    def __init__(
        self, num_blocks: int, block_size: int, on_evict: Callable[[Block], None] = lambda _: None
    ) -> None:
        """`on_evict` is called with each block before it is evicted."""
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.root = Block(_NOWHERE, None, b"", 0, ref_count=1)
        self.num_cached = 0
        self.num_evicted = 0
        """Blocks evicted so far."""
        self._on_evict = on_evict
        self._free = list(reversed(range(num_blocks)))
        self._clock = 0
        self._serial = count()
        # Evictable blocks by last use; entries that were used since, or evicted, are skipped.
        self._oldest: list[tuple[int, int, Block]] = []

    @property
    def free_blocks(self) -> Iterator[int]:
        """The free blocks."""
        return iter(self._free)

    @property
    def num_used(self) -> int:
        """The number of blocks of running sequences."""
        return self.num_blocks - len(self._free) - self.num_cached

    def find(self, tokens: bytes) -> tuple[Block, Block | None, int]:
        """Return the longest prefix of the tokens that is in the tree.

        It ends with the first block returned and the given number of tokens of the second.
        """
        block, start, size = self.root, 0, self.block_size * _TOKEN_BYTES
        while start + size <= len(tokens):
            child = block.children.get(tokens[start : start + size])
            if child is None:
                break
            block, start = child, start + size
        rest = tokens[start : start + size]
        best, most = None, 0
        for child in block.children.values():
            length = common_tokens(child.tokens, rest, most)
            if length > most:
                best, most = child, length
        # A block that ends there is preferred to a longer one: it need not be copied.
        return block, block.children.get(rest[: most * _TOKEN_BYTES], best), most

    def held(self, block: Block) -> int:
        """Return how many of the blocks up to this one are referenced."""
        while not block.ref_count:
            assert block.parent is not None
            block = block.parent
        return block.end // self.block_size

    def allocate(self) -> int | None:
        """Return a block for one sequence; None if running sequences hold all blocks."""
        if not self._free and not self.evict_oldest():
            return None
        return self._free.pop()

    def allocate_beside(self, block: Block) -> int | None:
        """Return a block as `allocate` does, without evicting `block` for it."""
        self._use(block)
        index = self.allocate()
        block.ref_count -= 1
        if not block.ref_count:
            self.num_cached += 1
            self._push_evictable(block)
        return index

    def free(self, index: int) -> None:
        """Free a block that one sequence owned."""
        self._free.append(index)

    def acquire(self, block: Block, conversation: str = "") -> list[int]:
        """Reference all blocks up to this one for one more sequence; returns their numbers."""
        path = block.path()
        for step in path:
            self._use(step)
            step.trace = remember(step.trace, conversation)
        return [step.index for step in path]

    def release(self, block: Block, *, public: bool) -> None:
        """Unreference all blocks up to this one; `public`: they may be stored."""
        self._clock += 1
        now = time.monotonic()
        step = block
        while step.parent is not None:
            step.ref_count -= 1
            if not step.ref_count:
                self.num_cached += 1
            step.used_at = self._clock
            step.left_at = now
            step.spilled = False
            if public:
                step.public = step.count
            step = step.parent
        self._push_evictable(block)

    def add(
        self, parent: Block, tokens: bytes, index: int, public: int = 0, trace: Trace = ()
    ) -> Block:
        """Insert a sequence's full block as a child of `parent`, and reference it.

        If the tree has the same block already, it is returned, and the one at `index` is freed.
        """
        block = parent.children.get(tokens)
        if block is None:
            block = Block(index, parent, tokens, parent.end + self.block_size, public, ref_count=1)
            parent.children[tokens] = block
        else:
            self._use(block)
            block.public = max(block.public, public)
            self.free(index)
        block.trace = merge_traces(trace, block.trace)
        return block

    def add_partial(
        self, parent: Block, tokens: bytes, index: int, public: int, trace: Trace = ()
    ) -> Block:
        """Insert a finished sequence's last block, which is not full, as a child of `parent`.

        As with `add`, another block may be returned, which may have more tokens.
        """
        self._clock += 1
        block = next((p for t, p in parent.children.items() if t.startswith(tokens)), None)
        if block is None:
            block = Block(index, parent, tokens, parent.end + len(tokens) // _TOKEN_BYTES)
            parent.children[tokens] = block
            self.num_cached += 1
        else:
            self.free(index)
        block.public = max(block.public, public)
        block.used_at = self._clock
        block.left_at = time.monotonic()
        block.trace = merge_traces(trace, block.trace)
        block.spilled = False
        self._push_evictable(block)
        return block

    def take_over(self, block: Block) -> int:
        """Take an evictable block out of the tree for one sequence; returns its number."""
        assert block.is_evictable
        index = block.index
        self._remove(block)
        return index

    def evict_oldest(self) -> bool:
        """Evict the least recently used block; False if none is evictable."""
        while self._oldest:
            used_at, _, block = heappop(self._oldest)
            if block.is_evictable and block.used_at == used_at:
                self._on_evict(block)
                self.num_evicted += 1
                self.free(block.index)
                self._remove(block)
                return True
        return False

    def _use(self, block: Block) -> None:
        if not block.ref_count:
            self.num_cached -= 1
        block.ref_count += 1

    def _remove(self, block: Block) -> None:
        """Remove an evictable block from the tree."""
        assert block.parent is not None
        del block.parent.children[block.tokens]
        block.index = _NOWHERE
        self.num_cached -= 1
        self._push_evictable(block.parent)

    def _push_evictable(self, block: Block) -> None:
        """Queue the block for eviction by its last use, if it is evictable."""
        if not block.is_evictable:
            return
        heappush(self._oldest, (block.used_at, next(self._serial), block))
        if len(self._oldest) > 2 * self.num_cached + 64:  # most entries are stale
            blocks = {entry[2]: None for entry in self._oldest if entry[2].is_evictable}
            self._oldest = [(block.used_at, next(self._serial), block) for block in blocks]
            heapify(self._oldest)


def common_tokens(left: bytes, right: bytes, least: int = 0) -> int:
    """Return how many leading tokens two have in common, or `least` if fewer."""
    most = min(len(left), len(right))
    end = least * _TOKEN_BYTES
    while end < most and left[: end + _TOKEN_BYTES] == right[: end + _TOKEN_BYTES]:
        end += _TOKEN_BYTES
    return end // _TOKEN_BYTES
