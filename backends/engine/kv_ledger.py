"""Who holds how much of the KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from .sequence import Sequence


@dataclass(eq=False)
class _SharedPrefix:
    length: int
    holders: int


class KVLedger:
    """Counts the cache cells in use; cells that forked sequences share count once.

    llama.cpp has no view of its cells, so the scheduler keeps this book for the runner.
    """

    def __init__(self, capacity: int, slots: int) -> None:
        self.capacity = capacity
        self._free_slots = list(range(slots))[::-1]
        self._own: dict[Sequence, int] = {}
        self._prefixes: dict[Sequence, _SharedPrefix] = {}
        self._used = 0

    @property
    def used(self) -> int:
        """Cells in use."""
        return self._used

    @property
    def free(self) -> int:
        """Cells nobody holds."""
        return self.capacity - self._used

    @property
    def has_free_slot(self) -> bool:
        """Whether another sequence can be admitted."""
        return bool(self._free_slots)

    def open(self, sequence: Sequence) -> None:
        """Give the sequence a slot with nothing in it."""
        sequence.slot = self._free_slots.pop()
        sequence.num_computed = 0
        self._own[sequence] = 0

    def grow(self, sequence: Sequence, count: int) -> None:
        """Book `count` cells more for the sequence."""
        self._own[sequence] += count
        self._used += count

    def share(self, source: Sequence, target: Sequence, length: int) -> None:
        """Turn the first `length` cells of `source` into a prefix that both hold."""
        prefix = self._prefixes.get(source)
        if prefix is None:
            prefix = self._prefixes[source] = _SharedPrefix(length, holders=1)
            self._own[source] -= length
        prefix.holders += 1
        self._prefixes[target] = prefix

    def close(self, sequence: Sequence) -> None:
        """Take back the sequence's slot, its own cells, and a prefix nobody else holds."""
        self._used -= self._own.pop(sequence)
        prefix = self._prefixes.pop(sequence, None)
        if prefix is not None:
            prefix.holders -= 1
            if not prefix.holders:
                self._used -= prefix.length
        self._free_slots.append(sequence.slot)
        sequence.slot = -1
        sequence.num_computed = 0
