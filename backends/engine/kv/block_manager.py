"""Which page of a pool holds what, who runs on it, and which gives way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from .conversation_trace import Trace, joined, remember

_TOKEN_BYTES = 4
_NOWHERE = -1


@dataclass(eq=False, slots=True)
class Block:
    """A page that others may share, since its tokens stay: those that follow the ones of `parent`.

    `tokens` are int32; `end` counts all tokens up to here. Only a full page has others behind it;
    in one that is not full, a sequence ended. `users` counts running sequences that go through it.
    The first `public` tokens may be stored; once they are, it is `spilled` until its next use.
    `trace` tells who ran on it last, `left_at` when the last one ended (monotonic seconds).
    """

    index: int
    parent: Block | None
    tokens: bytes
    end: int
    public: int = 0
    users: int = 0
    used_at: int = 0
    spilled: bool = False
    trace: Trace = ()
    left_at: float = 0.0
    children: dict[bytes, Block] = field(default_factory=dict[bytes, "Block"], repr=False)

    @property
    def count(self) -> int:
        """Tokens in the page."""
        return len(self.tokens) // _TOKEN_BYTES

    @property
    def may_go(self) -> bool:
        """Whether nobody runs on it and nothing is behind it."""
        return self.index >= 0 and not self.users and not self.children

    def path(self) -> list[Block]:
        """The pages up to this one, the first one first; the root is none of them."""
        path: list[Block] = []
        page = self
        while page.parent is not None:
            path.append(page)
            page = page.parent
        path.reverse()
        return path


class BlockManager:
    """The book of a pool of pages; it touches none of them.

    A page is free; or it is one running sequence's own, which writes there; or it is in the tree,
    by its tokens and all before them, and nobody writes there. Pages of the tree on which nobody
    runs are kept until their room is needed: the least recently used of those with nothing
    behind them goes first. Token ids are compared themselves, so that no hash can be wrong.
    """

    def __init__(
        self, num_pages: int, page_size: int, evicting: Callable[[Block], None] = lambda _: None
    ) -> None:
        """`evicting` sees each page that gives way while it is still there."""
        self.num_pages = num_pages
        self.page_size = page_size
        self.root = Block(_NOWHERE, None, b"", 0, users=1)
        self.num_kept = 0
        self.num_evicted = 0
        """Pages that gave way so far."""
        self._evicting = evicting
        self._free = list(reversed(range(num_pages)))
        self._clock = 0
        self._serial = count()
        # What may go, by last use; what was used since, or has gone, is passed over.
        self._oldest: list[tuple[int, int, Block]] = []

    @property
    def num_free(self) -> int:
        """Pages nobody has."""
        return len(self._free)

    @property
    def num_used(self) -> int:
        """Pages of running sequences."""
        return self.num_pages - len(self._free) - self.num_kept

    @property
    def free_pages(self) -> Iterator[int]:
        """The numbers of the pages nobody has."""
        return iter(self._free)

    def find(self, tokens: bytes) -> tuple[Block, Block | None, int]:
        """The longest prefix of the tokens that is in the tree.

        That is all up to the end of the first page, and so many tokens of the second one.
        """
        page, start, size = self.root, 0, self.page_size * _TOKEN_BYTES
        while start + size <= len(tokens):
            child = page.children.get(tokens[start : start + size])
            if child is None:
                break
            page, start = child, start + size
        rest = tokens[start : start + size]
        best, most = None, 0
        for child in page.children.values():
            length = common_tokens(child.tokens, rest, most)
            if length > most:
                best, most = child, length
        # A page that ends there is better than a longer one: it need not be copied.
        return page, page.children.get(rest[: most * _TOKEN_BYTES], best), most

    def held(self, page: Block) -> int:
        """How many of the pages up to this one belong to running sequences."""
        while not page.users:
            assert page.parent is not None
            page = page.parent
        return page.end // self.page_size

    def allocate(self) -> int | None:
        """A page for one sequence alone; None where running sequences have them all."""
        if not self._free and not self.give_up_oldest():
            return None
        return self._free.pop()

    def allocate_beside(self, page: Block) -> int | None:
        """As `allocate`, but it is not `page` that gives way."""
        self._use(page)
        index = self.allocate()
        page.users -= 1
        if not page.users:
            self.num_kept += 1
            self._may_go(page)
        return index

    def free(self, index: int) -> None:
        """Take back a page that one sequence had alone."""
        self._free.append(index)

    def hold(self, page: Block, conversation: str = "") -> list[int]:
        """Let one more sequence run on all pages up to this one; returns their numbers."""
        path = page.path()
        for step in path:
            self._use(step)
            step.trace = remember(step.trace, conversation)
        return [step.index for step in path]

    def let_go(self, page: Block, *, public: bool) -> None:
        """Let one sequence less run on all pages up to this one; `public`: they may be stored."""
        self._clock += 1
        now = time.monotonic()
        step = page
        while step.parent is not None:
            step.users -= 1
            if not step.users:
                self.num_kept += 1
            step.used_at = self._clock
            step.left_at = now
            step.spilled = False
            if public:
                step.public = step.count
            step = step.parent
        self._may_go(page)

    def add(
        self, parent: Block, tokens: bytes, index: int, public: int = 0, trace: Trace = ()
    ) -> Block:
        """Put a sequence's own page, full now, behind one on which it runs; it runs on this, too.

        Where the same is there already, that is returned, and the page at `index` is free again.
        """
        page = parent.children.get(tokens)
        if page is None:
            page = Block(index, parent, tokens, parent.end + self.page_size, public, users=1)
            parent.children[tokens] = page
        else:
            self._use(page)
            page.public = max(page.public, public)
            self.free(index)
        page.trace = joined(trace, page.trace)
        return page

    def leave(
        self, parent: Block, tokens: bytes, index: int, public: int, trace: Trace = ()
    ) -> Block:
        """Keep a sequence's own page, which is not full, behind one on which it still runs.

        As with `add`, the page that is returned may be another, which may have more tokens.
        """
        self._clock += 1
        page = next((p for t, p in parent.children.items() if t.startswith(tokens)), None)
        if page is None:
            page = Block(index, parent, tokens, parent.end + len(tokens) // _TOKEN_BYTES)
            parent.children[tokens] = page
            self.num_kept += 1
        else:
            self.free(index)
        page.public = max(page.public, public)
        page.used_at = self._clock
        page.left_at = time.monotonic()
        page.trace = joined(trace, page.trace)
        page.spilled = False
        self._may_go(page)
        return page

    def take_over(self, page: Block) -> int:
        """Make a page that may go, and lies behind one that is used, a sequence's own."""
        assert page.may_go
        index = page.index
        self._remove(page)
        return index

    def give_up_oldest(self) -> bool:
        """Free the page that was kept longest without use; False where there is none."""
        while self._oldest:
            used_at, _, page = heappop(self._oldest)
            if page.may_go and page.used_at == used_at:
                self._evicting(page)
                self.num_evicted += 1
                self.free(page.index)
                self._remove(page)
                return True
        return False

    def _use(self, page: Block) -> None:
        if not page.users:
            self.num_kept -= 1
        page.users += 1

    def _remove(self, page: Block) -> None:
        """Take a page that may go out of the tree."""
        assert page.parent is not None
        del page.parent.children[page.tokens]
        page.index = _NOWHERE
        self.num_kept -= 1
        self._may_go(page.parent)

    def _may_go(self, page: Block) -> None:
        """Note when the page was used last, if it may go."""
        if not page.may_go:
            return
        heappush(self._oldest, (page.used_at, next(self._serial), page))
        if len(self._oldest) > 2 * self.num_kept + 64:  # most are out of date
            pages = {entry[2]: None for entry in self._oldest if entry[2].may_go}
            self._oldest = [(page.used_at, next(self._serial), page) for page in pages]
            heapify(self._oldest)


def common_tokens(left: bytes, right: bytes, least: int = 0) -> int:
    """How many leading tokens two have in common; `least` where it is not more."""
    most = min(len(left), len(right))
    end = least * _TOKEN_BYTES
    while end < most and left[: end + _TOKEN_BYTES] == right[: end + _TOKEN_BYTES]:
        end += _TOKEN_BYTES
    return end // _TOKEN_BYTES
