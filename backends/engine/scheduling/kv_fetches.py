"""Fetches: waiting sequences whose keys and values are being read from the KV store."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator

from ..kv_store.kv_chunk_file import CHUNK_TOKENS, StoredPart
from ..kv_store.kv_store import KVStore
from ..sequence import Sequence

MIN_RESTORED = 64
"""Fewer tokens are computed, which takes about as long as reading them."""

_MOST_TRIES = 3


class Fetches:
    """Sequences that cannot begin while their keys and values are read; used by one thread."""

    def __init__(self, store: KVStore, wake: Callable[[], None]) -> None:
        """`wake` is called from another thread when a sequence can go on."""
        self._store = store
        self._wake = wake
        self._reading: set[Sequence] = set()
        self._read: queue.SimpleQueue[tuple[Sequence, list[StoredPart]]] = queue.SimpleQueue()

    def __len__(self) -> int:
        return len(self._reading)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._reading)

    def __contains__(self, sequence: Sequence | None) -> bool:
        return sequence in self._reading

    @property
    def has_ended(self) -> bool:
        """Whether a sequence can go on."""
        return not self._read.empty()

    def begin(self, sequence: Sequence, cached: int) -> bool:
        """Begin to read where more is stored than is at hand; False where the sequence can go on.

        `cached` tokens are in the cache.
        """
        if sequence.fetches == _MOST_TRIES:
            return False
        at_hand = max(cached, sequence.stored_length(cached))
        # The last token has to be computed in any case.
        tokens = sequence.key_tokens(0, -1)
        if self._store.match(tokens) - at_hand < MIN_RESTORED:
            return False
        sequence.fetches += 1
        self._reading.add(sequence)
        start = cached - cached % CHUNK_TOKENS
        self._store.fetch(tokens, start, lambda parts: self._done(sequence, parts))
        return True

    def take_ended(self) -> list[Sequence]:
        """The sequences that can go on, with what was read."""
        ended: list[Sequence] = []
        while not self._read.empty():
            sequence, parts = self._read.get()
            if sequence in self._reading:
                self._reading.remove(sequence)
                sequence.stored = parts
                ended.append(sequence)
        return ended

    def cancel(self, sequence: Sequence) -> None:
        """Wait no longer for a sequence, if it is one of these."""
        self._reading.discard(sequence)

    def _done(self, sequence: Sequence, parts: list[StoredPart]) -> None:
        self._read.put((sequence, parts))
        self._wake()
