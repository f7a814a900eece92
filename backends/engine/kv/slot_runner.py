"""A `ModelRunner` whose cache holds sequences in slots, and shares cells between them."""

from __future__ import annotations

from typing import Protocol

from ..model_runner import ModelRunner


class SlotRunner(ModelRunner, Protocol):
    """Finds the cells of a sequence's tokens by itself: all it is told is the slot.

    A slot is one sequence of the KV cache, numbered from 0 to `cache_slots` - 1. The book of its
    cells is `CellCache`.
    """

    @property
    def cache_slots(self) -> int:
        """Sequences the cache can hold, running and ended ones; more than `slots`."""
        ...

    def fork(self, source: int, target: int, length: int, checkpoint: bytes | None = None) -> None:
        """Let the empty slot `target` share the first `length` tokens of slot `source`.

        Where the source is longer and `can_fork` is False, `checkpoint` has its state at `length`.
        """
        ...

    def checkpoint(self, slot: int) -> bytes:
        """What of the slot's state cannot be cut."""
        ...

    def trim(self, slot: int, length: int) -> None:
        """Forget what the slot holds behind its first `length` tokens; only where `can_fork`."""
        ...

    def release(self, slot: int) -> None:
        """Forget what the slot holds."""
        ...

    def snapshot(self, slot: int, start: int, end: int) -> bytes:
        """A copy of the keys and values of the slot's tokens `start` to `end`."""
        ...

    def restore(self, slot: int, start: int, end: int, data: bytes | memoryview) -> bool:
        """Append a snapshot to the slot, which holds `start` tokens; False where it does not fit.

        Takes the first `end` - `start` tokens of the snapshot, in as many free cells as it has.
        """
        ...
