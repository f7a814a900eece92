"""The KV cache manager of a `StateRunner`: pages, and snapshots of states at some tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ..batch import Batch, ScheduledChunk, StateStep
from ..kv_cache import MIN_SHARED, Prefix, Tokens
from ..kv_store.kv_chunk_file import CHUNK_TOKENS, StoredPart
from ..kv_store.kv_store import KVStore
from ..model_runner import StateRunner
from ..sequence import Sequence
from .block_manager import Block, common_tokens
from .paged_cache import PagedCache, PagedPrefix, RunningPages, packed_tokens
from .state_rows import StateRows, StateSnapshot

_BEFORE_END = 4
"""Tokens of a prompt behind a snapshot of it: what a template puts before an answer may be missing
from the next turn's prompt, or be another."""
_SHARE = 4
"""The snapshots of one prompt take at most this fraction's inverse of all rows."""
_TOKEN_BYTES = 4
_WITH_STATE, _WITHOUT = b"\1", b"\0"


@dataclass(frozen=True)
class StatePrefix(PagedPrefix):
    """A prefix up to a snapshot; `known` tokens, which may be more, have keys and values."""

    snapshot: StateSnapshot | None = field(default=None, repr=False)
    known: int = 0


@dataclass(eq=False, slots=True)
class _State:
    """The states of a running sequence: of `length` tokens in `row`, with those of launched steps.

    Those after each draft token that is being verified are in `drafts`. Snapshots are due at the
    lengths `planned`, and at each multiple of `spacing`.
    """

    row: int
    length: int
    spacing: int
    planned: set[int]
    drafts: list[int] = field(default_factory=list[int])

    def due(self, start: int, end: int) -> list[int]:
        """The lengths from `start`, which is left out, to `end` at which snapshots are due."""
        first = (start // self.spacing + 1) * self.spacing
        at = {length for length in self.planned if start < length <= end}
        return sorted(at.union(range(first, end + 1, self.spacing)))


class StateCache(PagedCache):
    """Allocates rows for states beside pages; a prefix can be shared where it has a snapshot.

    A snapshot is taken where the next prompt may well part from this one: before the last token of
    a prompt, at the last page border before its end, where its pages were known but no states, at
    regular distances, and where a sequence ends. Draft tokens have a row each until they are
    verified. In the store, the states of a chunk's last token follow its keys and values.
    """

    _runner: StateRunner

    def __init__(self, runner: StateRunner, store: KVStore | None = None) -> None:
        """Take over the runner's whole cache, emptied."""
        super().__init__(runner, store)
        if runner.num_states < runner.slots + runner.max_drafts:
            raise ValueError(f"{runner.num_states} rows are too few for {runner.slots} slots")
        self.rows = StateRows(runner.num_states)
        """The rows of the pool."""
        self._states: dict[Sequence, _State] = {}
        chunks = -(-runner.state_tokens // CHUNK_TOKENS)
        self._spacing = CHUNK_TOKENS * max(1, chunks)

    def match(self, tokens: Tokens, minimum: int = MIN_SHARED) -> StatePrefix:
        """The longest prefix of `tokens` but for its last one that has a snapshot."""
        found = super().match(tokens, 1)
        page = found.page or self.pages.root
        rest = tokens[:-1].tobytes()[page.end * _TOKEN_BYTES :]
        best: StateSnapshot | None = None
        source: Block | Sequence | None = None
        for holder, here, count in self._partly(page, rest):
            snapshot = self.rows.find(holder, page.end + count)
            if snapshot is not None and (best is None or snapshot.length > best.length):
                best, source = snapshot, here
        while best is None and page.parent is not None:
            best = self.rows.find(page, page.end)
            if best is not None and best.length == page.end:
                source = None
            else:  # up to somewhere in the page, or to be looked for before it
                source, page = page, page.parent
        if best is None or best.length < max(minimum, 1):
            return StatePrefix(known=found.length)
        return StatePrefix(
            best.length,
            self.pages.held(page) * self._size,
            page=page,
            source=source,
            count=best.length - page.end,
            snapshot=best,
            known=found.length,
        )

    def _partly(
        self, page: Block, rest: bytes
    ) -> Iterator[tuple[Block | RunningPages, Block | Sequence, int]]:
        """Holders of tokens that follow `page` and begin as `rest` does, and how many do."""
        for child in page.children.values():
            yield child, child, common_tokens(child.tokens, rest)
        for sequence, state in self._running.items():
            if state.last is page:
                own = packed_tokens(sequence, page.end, state.length)
                yield state, sequence, common_tokens(own, rest)

    def open(self, sequence: Sequence, prefix: Prefix) -> None:
        """See `KVCache`."""
        assert isinstance(prefix, StatePrefix)
        parts, data = self._usable(sequence.stored)
        if data is not None and parts[-1].end > prefix.length:
            sequence.stored, expected = parts, parts[-1].end
        else:
            sequence.stored, data, expected = [], None, prefix.length
        if prefix.snapshot is not None:
            self.rows.touch(prefix.snapshot)
        row = self._row()
        # The last snapshot of all may have to give its own row away.
        if prefix.snapshot is not None and prefix.snapshot.row != row:
            self._runner.copy_state(prefix.snapshot.row, row)
        self._states[sequence] = _State(
            row, expected, self._distance(sequence), self._plan(sequence, prefix)
        )
        super().open(sequence, prefix)
        if sequence.num_computed == expected:
            if data is None or self._put_state(sequence, data):
                return
            assert self._store is not None
            tokens = np.asarray(sequence.token_ids, np.int32)
            self._store.reject(tokens, parts[-1].start)
        self._begin_again(sequence)

    def _plan(self, sequence: Sequence, prefix: StatePrefix) -> set[int]:
        """Lengths at which other sequences may part from this one."""
        end = max(0, sequence.prompt_length - _BEFORE_END)
        return {
            sequence.prompt_length - 1,
            end - end % self._size,
            prefix.known - prefix.known % self._size,
        }

    def _distance(self, sequence: Sequence) -> int:
        """The distance of the sequence's regular snapshots: whole chunks of the store."""
        most = max(1, self._runner.num_states // _SHARE)
        chunks = -(-sequence.prompt_length // (most * CHUNK_TOKENS))
        return max(self._spacing, chunks * CHUNK_TOKENS)

    def _begin_again(self, sequence: Sequence) -> None:
        """Let a sequence begin with what else is cached, since it has no states for its pages."""
        tokens = np.asarray(sequence.token_ids, np.int32)
        got = sequence.num_computed
        self._states[sequence].length = -1
        self.keep(sequence)
        self.open(sequence, self.match(tokens[: got + 1]))

    def _put_state(self, sequence: Sequence, data: bytes | memoryview) -> bool:
        """Begin with the states in `data`, kept as a snapshot, too; False if they are damaged."""
        state = self._states[sequence]
        if not self._runner.write_state(state.row, data):
            return False
        self._take_snapshot(sequence, state)
        self._hand_over(sequence)
        return True

    def _take_snapshot(self, sequence: Sequence, state: _State) -> None:
        """Copy the states that the sequence has, if there is a row for it."""
        row = self.rows.allocate()
        if row is not None:
            self._runner.copy_state(state.row, row)
            self.rows.put(self._running[sequence], state.length, row)

    def reserve(self, batch: Batch) -> None:
        """Give each chunk pages, and rows for the states that it leaves."""
        super().reserve(batch)
        for chunk in batch.chunks:
            state = self._states[chunk.sequence]
            self._free_drafts(state)  # of a step that was not launched
            state.drafts += [self._row() for _ in chunk.drafts]
        taken: list[tuple[RunningPages, int, int]] = []
        for chunk in batch.chunks:
            step, snapshots = self._step(chunk)
            batch.states.append(step)
            taken += [(self._running[chunk.sequence], *snapshot) for snapshot in snapshots]
        # Only now can they be evicted: no two of a step may get the same row.
        for holder, length, row in taken:
            self.rows.put(holder, length, row)

    def _row(self) -> int:
        """A row for a running sequence, for which there is always one."""
        row = self.rows.allocate()
        assert row is not None
        return row

    def _step(self, chunk: ScheduledChunk) -> tuple[StateStep, list[tuple[int, int]]]:
        """The rows of a chunk, and lengths and rows of the snapshots among them."""
        sequence = chunk.sequence
        state, start = self._states[sequence], sequence.num_launched
        end = start + chunk.count
        snapshots: list[tuple[int, int]] = []
        for length in state.due(start, end):
            row = self.rows.allocate()
            if row is not None:
                snapshots.append((length, row))
        writes = [(length - start, row) for length, row in snapshots]
        writes.append((chunk.count, state.row))
        writes += [(chunk.count + number, row) for number, row in enumerate(state.drafts, 1)]
        state.length = end
        return StateStep(state.row if start else None, tuple(writes)), snapshots

    def grow(self, sequence: Sequence, count: int) -> None:
        """See `KVCache`; of the rows of draft tokens that of the last accepted one is kept."""
        super().grow(sequence, count)
        state = self._states[sequence]
        accepted = sequence.num_computed - state.length
        if accepted > 0:
            self._accept(sequence, state, accepted)
        self._free_drafts(state)
        self._hand_over(sequence)

    def _accept(self, sequence: Sequence, state: _State, count: int) -> None:
        """Go on from the row of the last accepted draft token; those that are due are snapshots."""
        base, end = state.length, state.length + count
        after = dict(enumerate(state.drafts, base + 1))
        before, state.row, state.length = state.row, after.pop(end), end
        for length in state.due(base, end):
            if length < end:
                self.rows.put(self._running[sequence], length, after.pop(length))
            else:
                self._take_snapshot(sequence, state)
        state.drafts = [before, *after.values()]

    def _free_drafts(self, state: _State) -> None:
        while state.drafts:
            self.rows.free(state.drafts.pop())

    def _hand_over(self, sequence: Sequence) -> None:
        """Give snapshots to the blocks that the sequence's pages have become."""
        state = self._running[sequence]
        block = state.last
        while block.parent is not None and self.rows.shortest(state) <= block.end:
            self.rows.move(state, block, range(block.parent.end + 1, block.end + 1))
            block = block.parent

    def _add_rest(self, sequence: Sequence, state: RunningPages) -> Block:
        """Cache the last page and the states at the sequence's end."""
        end = super()._add_rest(sequence, state)
        own = self._states.pop(sequence)
        if end is not state.last:
            self.rows.move(state, end, range(state.last.end + 1, state.length + 1))
        self.rows.drop(state)
        if own.length == state.length >= MIN_SHARED and end.end >= state.length:
            self.rows.put(end, own.length, own.row)
        else:
            self.rows.free(own.row)
        return end

    def keep(self, sequence: Sequence) -> None:
        """See `KVCache`."""
        state = self._states[sequence]
        ahead = state.length - self._running[sequence].length
        # A step launched ahead has computed the token that turned out to be the last.
        if ahead > 0 and state.length <= len(sequence.token_ids):
            self.grow(sequence, ahead)
        super().keep(sequence)

    def _begin_partly(self, sequence: Sequence, state: RunningPages, prefix: PagedPrefix) -> None:
        super()._begin_partly(sequence, state, prefix)
        source = prefix.source
        if isinstance(source, Block) and source.index < 0:  # its page is the sequence's own now
            self.rows.move(source, state, range(state.length + 1))
            self.rows.drop(source)

    def _spill(self, page: Block) -> None:
        super()._spill(page)
        self.rows.drop(page)

    def _read(self, pages: list[Block], count: int) -> bytes:
        """Keys and values, and the states after the last of the tokens if there is a snapshot."""
        data, last = super()._read(pages, count), pages[-1]
        parent = last.parent
        assert parent is not None
        length = parent.end + count - (len(pages) - 1) * self._size
        snapshot = self.rows.at(last, length)
        if snapshot is None:
            return data + _WITHOUT
        return data + self._runner.read_state(snapshot.row) + _WITH_STATE

    def _usable(
        self, parts: list[StoredPart]
    ) -> tuple[list[StoredPart], bytes | memoryview | None]:
        """The parts up to the last one that has states, without these, and the states."""
        usable: list[StoredPart] = []
        states: bytes | memoryview | None = None
        found, size = 0, self._runner.state_bytes
        for part in parts:
            has_states = part.data[-1:] == _WITH_STATE
            keys = part.data[: -1 - size] if has_states else part.data[:-1]
            usable.append(replace(part, data=keys))
            if has_states and part.end - part.start == part.size:
                states, found = part.data[-1 - size : -1], len(usable)
        return usable[:found], states
