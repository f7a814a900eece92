"""The interface of KV cache managers: capacity, prefix matching, allocation, eviction."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..base.kv_page_map import KVPageMap
from .batch import Batch
from .kv_store.kv_store import KVStore
from .sequence import Sequence

Tokens = NDArray[np.int32]

MIN_SHARED = 32
"""Shorter prefixes are computed again. That costs little, and keeps short prompts reproducible:
prefill in other chunks yields slightly different logits."""


@dataclass(frozen=True)
class Prefix:
    """A cached prefix of `length` tokens; valid until the cache changes.

    Running sequences hold `active` tokens of it already.
    """

    length: int = 0
    active: int = 0


class KVCache(ABC):
    """Allocates KV memory to sequences, and caches that of finished ones for shared prefixes.

    Amounts are in tokens. Here a token allocates one, wherever it stands; a cache of blocks
    allocates whole blocks, so that the tokens that one more token allocates depend on its position.
    """

    def __init__(self, capacity: int, store: KVStore | None) -> None:
        """Evicted tokens go to the `store`, if there is one."""
        self.capacity = capacity
        """The size of the cache."""
        self.restored = 0
        """Tokens restored from the KV store."""
        self._store = store

    @property
    @abstractmethod
    def used(self) -> int:
        """Tokens of running sequences; shared ones count once."""

    @property
    @abstractmethod
    def kept(self) -> int:
        """Cached, evictable tokens."""

    @property
    def available(self) -> int:
        """Tokens that running sequences can allocate: free or evictable ones."""
        return self.capacity - self.used

    def room(self, count: int) -> int:
        """Return what `count` tokens of one sequence allocate."""
        return count

    def growth(self, sequence: Sequence, count: int) -> int:
        """Return what `count` more tokens of the sequence allocate of `available`."""
        return count

    def most(self, sequences: Iterable[Sequence], room: int) -> int:
        """Return the most tokens of these sequences that fit into `room` of `available`.

        For one sequence it is exact; for several it depends on how the tokens are divided.
        """
        return room

    @abstractmethod
    def match(self, tokens: Tokens, minimum: int = MIN_SHARED) -> Prefix:
        """Return the longest cached prefix of `tokens[:-1]`; empty below `minimum` tokens."""

    @abstractmethod
    def open(self, sequence: Sequence, prefix: Prefix) -> None:
        """Give the sequence a slot, the prefix, and what was fetched for it."""

    @abstractmethod
    def reserve(self, batch: Batch) -> None:
        """Allocate what the batch writes; it must fit into `available`."""

    @abstractmethod
    def grow(self, sequence: Sequence, count: int) -> None:
        """Record that the sequence's next `count` tokens are computed and final."""

    @abstractmethod
    def trim(self, sequence: Sequence) -> None:
        """Discard what was computed of the sequence beyond its recorded tokens."""

    def until_checkpoint(self, sequence: Sequence) -> int:
        """Return how many pending tokens can be computed before the next checkpoint."""
        return sequence.num_pending

    @abstractmethod
    def keep(self, sequence: Sequence) -> None:
        """Release the sequence's blocks or slot, and cache its tokens."""

    @abstractmethod
    def evict_oldest(self) -> bool:
        """Evict the least recently used cached tokens; False if there are none."""

    @abstractmethod
    def make_light(self) -> None:
        """Move cached tokens away that slow down running sequences; takes at most about 20 ms.

        The rest is moved before the next steps.
        """

    @property
    @abstractmethod
    def unsaved(self) -> bool:
        """Whether cached tokens have not been saved to disk yet."""

    @abstractmethod
    def save(self, seconds: float) -> None:
        """Queue cached tokens for writing, newest first, for about so many seconds.

        Stops early if the disk is too slow.
        """

    @abstractmethod
    def page_map(self) -> KVPageMap:
        """Return what each block holds."""

    def _store_missing(
        self,
        tokens: Tokens,
        read: Callable[[int, int], bytes],
        deadline: float,
        *,
        to_disk: bool,
    ) -> bool:
        """Store the parts of the tokens that the store lacks; False if there was no time for all.

        `read` copies the keys and values of tokens from one position to another. Stops early if the
        disk is too slow.
        """
        store = self._store
        if store is None or len(tokens) < MIN_SHARED:
            return True
        for start, end in store.missing(tokens, to_disk=to_disk):
            if time.monotonic() > deadline or (to_disk and not store.accepts_saves):
                return False
            if not store.put(tokens, start, end, read(start, end), to_disk=to_disk):
                break  # the store has no memory for it
        return True
