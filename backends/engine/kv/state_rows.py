"""The rows of a pool of recurrent states: those of running sequences, and snapshots of prefixes."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class StateSnapshot:
    """The states of a prefix of `length` tokens, in `row`; `holder` has the last of the tokens."""

    length: int
    row: int
    holder: Hashable


class StateRows:
    """Allocates rows, and finds snapshots by their holders: blocks, or pages of running sequences.

    When rows run out, the snapshot that was used least recently is evicted.
    """

    def __init__(self, count: int) -> None:
        self._free = list(reversed(range(count)))
        self._held: dict[Hashable, dict[int, StateSnapshot]] = {}
        self._by_use: dict[StateSnapshot, None] = {}  # the least recently used first

    @property
    def num_snapshots(self) -> int:
        """The number of snapshots."""
        return len(self._by_use)

    @property
    def num_free(self) -> int:
        """The number of rows that hold nothing."""
        return len(self._free)

    def allocate(self) -> int | None:
        """A row; None if all are in use by something else than snapshots."""
        if not self._free:
            if not self._by_use:
                return None
            self._remove(next(iter(self._by_use)))
        return self._free.pop()

    def free(self, row: int) -> None:
        """Free a row that is no snapshot."""
        self._free.append(row)

    def put(self, holder: Hashable, length: int, row: int) -> None:
        """Make a row the snapshot of a prefix; it is freed if there is one already."""
        held = self._held.setdefault(holder, {})
        if length in held:
            self.touch(held[length])
            self.free(row)
        else:
            held[length] = StateSnapshot(length, row, holder)
            self._by_use[held[length]] = None

    def touch(self, snapshot: StateSnapshot) -> None:
        """Record that the snapshot was used."""
        self._by_use[snapshot] = self._by_use.pop(snapshot)

    def find(self, holder: Hashable, most: int) -> StateSnapshot | None:
        """The longest snapshot of the holder with at most so many tokens."""
        held = self._held.get(holder, {})
        length = max((length for length in held if length <= most), default=None)
        return None if length is None else held[length]

    def at(self, holder: Hashable, length: int) -> StateSnapshot | None:
        """The snapshot of the holder with just so many tokens."""
        return self._held.get(holder, {}).get(length)

    def shortest(self, holder: Hashable) -> float:
        """The length of the holder's shortest snapshot, infinite if it has none."""
        return min(self._held.get(holder, ()), default=math.inf)

    def move(self, holder: Hashable, target: Hashable, lengths: range) -> None:
        """Give the holder's snapshots of these lengths to another holder."""
        for length, snapshot in list(self._held.get(holder, {}).items()):
            if length in lengths:
                self._detach(snapshot)
                self.put(target, length, snapshot.row)

    def drop(self, holder: Hashable) -> None:
        """Evict the holder's snapshots."""
        for snapshot in list(self._held.get(holder, {}).values()):
            self._remove(snapshot)

    def _remove(self, snapshot: StateSnapshot) -> None:
        self._detach(snapshot)
        self._free.append(snapshot.row)

    def _detach(self, snapshot: StateSnapshot) -> None:
        held = self._held[snapshot.holder]
        del held[snapshot.length]
        if not held:
            del self._held[snapshot.holder]
        del self._by_use[snapshot]
