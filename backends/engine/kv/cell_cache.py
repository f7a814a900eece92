"""The KV cache manager of a `SlotRunner`: tokens in slots, and cells that slots share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ...base.kv_page_map import KVPageMap
from ..batch import Batch
from ..kv_cache import MIN_SHARED, KVCache, Prefix, Tokens
from ..kv_store.kv_chunk_tree import common_length
from ..kv_store.kv_store import KVStore
from ..model_runner import SlotRunner
from ..sequence import Sequence
from .page_map import PAGE_TOKENS, PageGroups, Stretch, Trace, cell_owners, remember
from .state_checkpoints import Checkpoint, Checkpoints

_SPILL_SECONDS = 0.2

_LIGHTENING_SECONDS = 0.02
"""What moving idle conversations out may cost a step. Each step's attention is over all cells up to
the last one in use, and those of a few ended sequences lie scattered among them: 4,000 idle cells
cost a small model on a CPU a tenth to a third of its speed, while moving 1,000 tokens out and back
takes about 3 ms."""


@dataclass(eq=False)
class _Slot:
    """One sequence of the cache: its tokens, and the cells of their keys and values.

    The first `public` tokens may be stored; `unsaved` is False when what can be saved of them is.
    `traces` are the conversations that used the tokens from a position on, `left_at` is when the
    last sequence ended or began from here (monotonic seconds).
    """

    index: int
    tokens: Tokens
    cells: NDArray[np.int32]
    length: int = 0
    public: int = 0
    unsaved: bool = False
    traces: list[tuple[int, Trace]] = field(default_factory=list[tuple[int, Trace]])
    left_at: float = 0.0

    def enter(self, conversation: str) -> None:
        """Record that a conversation uses all tokens, and adds those that follow."""
        traces = [(start, remember(trace, conversation)) for start, trace in self.traces]
        traces.append((self.length, (conversation,)))
        self.traces = [
            (start, trace)
            for number, (start, trace) in enumerate(traces)
            if not number or traces[number - 1][1] != trace
        ]

    def stretches(self, *, running: bool) -> Iterator[Stretch]:
        """The cells by the conversations that used them."""
        ends = [start for start, _ in self.traces[1:]] + [self.length]
        for (start, trace), end in zip(self.traces, ends, strict=True):
            yield Stretch(self.cells[start:end], trace, running, self.left_at)


@dataclass(frozen=True)
class CellPrefix(Prefix):
    """The first tokens of a slot."""

    slot: _Slot | None = field(default=None, repr=False)
    checkpoint: Checkpoint | None = field(default=None, repr=False)


class CellCache(KVCache):
    """Allocates slots to sequences, and caches those of finished ones for shared prefixes.

    A slot is *held* by a running sequence, *kept* after its sequence ended, or empty. New sequences
    share the cells of the longest known prefix, and nothing is copied. When cells or slots run out,
    the least recently used slots are evicted to the store, if there is one. The runner has no view
    of its cells, so they are counted here: a cell is free once no slot has it.
    """

    def __init__(self, runner: SlotRunner, store: KVStore | None = None) -> None:
        """Take over the runner's whole cache, emptied."""
        super().__init__(runner.kv_capacity, store)
        self._runner = runner
        self._checkpoints = Checkpoints(runner)
        for index in range(runner.cache_slots):
            runner.release(index)
        room = runner.context
        self._empty = [
            _Slot(index, np.empty(room, np.int32), np.empty(room, np.int32))
            for index in reversed(range(runner.cache_slots))
        ]
        self._held: dict[Sequence, _Slot] = {}
        self._kept: dict[int, _Slot] = {}  # the least recently used first
        self._holders = np.zeros(self.capacity, np.int32)
        self._running = np.zeros(self.capacity, np.int32)
        self._free = np.arange(self.capacity, dtype=np.int32)[::-1].copy()  # the next one last
        self._num_free = self.capacity
        self._evicted_cells = 0
        self._used = 0

    @property
    def used(self) -> int:
        """Cells of running sequences."""
        return self._used

    @property
    def kept(self) -> int:
        """See `KVCache`."""
        return self.capacity - self._num_free - self._used

    def match(self, tokens: Tokens, minimum: int = MIN_SHARED) -> CellPrefix:
        """The longest prefix of `tokens` but for its last one; empty below `minimum`."""
        best = CellPrefix(length=max(minimum, 1) - 1)
        # The most recently used first, since the first of equally long prefixes is taken.
        for slot in chain(reversed(self._kept.values()), self._held.values()):
            most = min(slot.length, len(tokens) - 1)
            if most <= best.length:
                continue
            length, checkpoint = common_length(slot.tokens[:most], tokens[:most]), None
            if not self._runner.can_fork and length < slot.length:
                checkpoint = self._checkpoints.find(slot.index, length)
                length = checkpoint.length if checkpoint is not None else 0
            if length > best.length:
                best = CellPrefix(length, slot=slot, checkpoint=checkpoint)
        if best.slot is None:
            return CellPrefix()
        active = int(np.count_nonzero(self._running[best.slot.cells[: best.length]]))
        return replace(best, active=active)

    def open(self, sequence: Sequence, prefix: Prefix) -> None:
        """See `KVCache`."""
        assert isinstance(prefix, CellPrefix)
        length = sequence.useful_prefix(prefix.length)
        if prefix.checkpoint is not None and length < prefix.length:
            length = 0  # there is no state of that token
        self._open(sequence, replace(prefix, length=length) if length else CellPrefix())
        self._restore(sequence)

    def _open(self, sequence: Sequence, prefix: CellPrefix) -> None:
        source = prefix.slot
        if source is not None and self._kept.get(source.index) is source:
            self._kept[source.index] = self._kept.pop(source.index)  # used just now
            source.left_at = time.monotonic()
            if prefix.length == source.length:
                del self._kept[source.index]
                source.enter(sequence.conversation)
                self._hold(sequence, source)
                return
        slot = self._empty.pop() if self._empty else self._evict_oldest(keep=source)
        if source is not None:
            state = prefix.checkpoint.state if prefix.checkpoint is not None else None
            self._runner.fork(source.index, slot.index, prefix.length, state)
            self._checkpoints.share(source.index, slot.index, prefix.length)
            slot.length = prefix.length
            slot.tokens[: slot.length] = source.tokens[: slot.length]
            slot.cells[: slot.length] = source.cells[: slot.length]
            self._holders[slot.cells[: slot.length]] += 1
            slot.traces = [known for known in source.traces if known[0] < slot.length]
        slot.enter(sequence.conversation)
        self._hold(sequence, slot)

    def _restore(self, sequence: Sequence) -> None:
        """Append what was fetched from the store, as far as it fits."""
        parts, sequence.stored = sequence.stored, []
        last = sequence.whole_pictures(parts[-1].end) if parts else 0
        for part in parts:
            end = min(part.end, last)
            if end <= sequence.num_computed:
                continue
            # All of a snapshot needs room for a moment, although only a part of it may be of use.
            if part.start != sequence.num_computed or part.size > self.available:
                break
            self._free_cells(part.size)
            if not self._runner.restore(sequence.slot, part.start, end, part.data):
                assert self._store is not None
                self._store.reject(sequence.key_tokens(), part.start)
                break
            self.grow(sequence, end - part.start)
            self.restored += end - part.start

    def reserve(self, batch: Batch) -> None:
        """Make sure that the runner finds free cells for the batch."""
        self._free_cells(batch.num_tokens)

    def _free_cells(self, count: int) -> None:
        while self._num_free < count:
            self._empty.append(self._evict_oldest())

    def grow(self, sequence: Sequence, count: int) -> None:
        """See `KVCache`."""
        slot = self._held[sequence]
        start, end = slot.length, slot.length + count
        self._num_free -= count
        cells = self._free[self._num_free : self._num_free + count][::-1]
        slot.tokens[start:end] = sequence.key_tokens(start, end)
        slot.cells[start:end] = cells
        slot.length = end
        sequence.num_computed = end
        self._holders[cells] = 1
        self._running[cells] = 1
        self._used += count
        self._checkpoints.take(sequence)

    def trim(self, sequence: Sequence) -> None:
        """See `KVCache`."""
        slot = self._held[sequence]
        self._runner.trim(slot.index, slot.length)

    def until_checkpoint(self, sequence: Sequence) -> int:
        """Pending tokens that may be computed at once."""
        return self._checkpoints.until_next(sequence)

    def keep(self, sequence: Sequence) -> None:
        """See `KVCache`."""
        slot = self._let_go(sequence)
        if slot.length < MIN_SHARED:
            self._empty.append(self._clear(slot))
        else:
            slot.unsaved = True
            slot.left_at = time.monotonic()
            self._kept[slot.index] = slot

    def evict_oldest(self) -> bool:
        """Forget the slot that was kept longest without use; False where none is kept."""
        if not self._kept:
            return False
        self._empty.append(self._evict_oldest())
        return True

    def make_light(self) -> None:
        """Move idle tokens to memory, so that running sequences attend to fewer cells.

        Takes about 20 ms at most. What is not moved by then stays, and is in the next step.
        """
        if not self._kept or self._store is None:
            return
        deadline = time.monotonic() + _LIGHTENING_SECONDS
        for slot in list(self._kept.values()):
            if slot.public == slot.length and self._store.may_hold(slot.length):
                if not self._store_slot(slot, deadline, to_disk=False):
                    return
                del self._kept[slot.index]
                self._empty.append(self._clear(slot))
                if time.monotonic() > deadline:
                    return

    @property
    def unsaved(self) -> bool:
        """Whether something kept has not been saved to disk yet."""
        saves = self._store is not None and self._store.writes_disk
        return saves and any(slot.unsaved for slot in self._kept.values())

    def save(self, seconds: float) -> None:
        """Hand over what is kept to be written, newest first, for about so many seconds.

        Stops early where the disk does not keep up.
        """
        deadline = time.monotonic() + seconds
        for slot in reversed(self._kept.values()):
            if slot.unsaved:
                if not self._store_slot(slot, deadline, to_disk=True):
                    return
                slot.unsaved = False

    def page_map(self) -> KVPageMap:
        """See `KVCache`; a page is 32 consecutive cells."""
        groups = PageGroups()
        held = [s for slot in self._held.values() for s in slot.stretches(running=True)]
        kept = [s for slot in self._kept.values() for s in slot.stretches(running=False)]
        return groups.map(
            cell_owners([*held, *kept], self.capacity, groups),
            PAGE_TOKENS,
            store=self._store,
            evicted=self._evicted_cells // PAGE_TOKENS,
        )

    def _store_slot(self, slot: _Slot, deadline: float, *, to_disk: bool) -> bool:
        def read(start: int, end: int) -> bytes:
            return self._runner.snapshot(slot.index, start, end)

        tokens = slot.tokens[: slot.public]
        return self._store_missing(tokens, read, deadline, to_disk=to_disk)

    def _hold(self, sequence: Sequence, slot: _Slot) -> None:
        cells = slot.cells[: slot.length]
        self._used += slot.length - int(np.count_nonzero(self._running[cells]))
        self._running[cells] += 1
        self._held[sequence] = slot
        sequence.slot = slot.index
        sequence.num_computed = slot.length

    def _let_go(self, sequence: Sequence) -> _Slot:
        slot = self._held.pop(sequence)
        if not sequence.private:
            slot.public = sequence.storable(slot.length)
        cells = slot.cells[: slot.length]
        self._running[cells] -= 1
        self._used -= slot.length - int(np.count_nonzero(self._running[cells]))
        sequence.slot = -1
        sequence.num_computed = 0
        return slot

    def _evict_oldest(self, keep: _Slot | None = None) -> _Slot:
        index = next(index for index, slot in self._kept.items() if slot is not keep)
        slot = self._kept.pop(index)
        self._store_slot(slot, time.monotonic() + _SPILL_SECONDS, to_disk=False)
        before = self._num_free
        self._clear(slot)
        self._evicted_cells += self._num_free - before
        return slot

    def _clear(self, slot: _Slot) -> _Slot:
        self._runner.release(slot.index)
        self._checkpoints.drop(slot.index)
        cells = slot.cells[: slot.length]
        self._holders[cells] -= 1
        freed = cells[self._holders[cells] == 0]
        self._free[self._num_free : self._num_free + len(freed)] = freed[::-1]
        self._num_free += len(freed)
        slot.length = slot.public = 0
        slot.unsaved = False
        slot.traces = []
        return slot
