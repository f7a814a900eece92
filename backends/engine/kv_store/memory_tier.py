"""The memory tier of the KV store: chunks, evicted by least recent use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psutil

from .kv_chunk_tree import KVChunk

_MOST_RESERVE = 2**30


class MemoryTier:
    """A bounded number of bytes of chunks; takes nothing that the machine is short of."""

    def __init__(self, limit: int, *, spare: Callable[[], int] | None = None) -> None:
        """`spare` returns the bytes that the machine can spare, and may be called often."""
        self.limit = limit
        self.spare = spare or _spare_memory
        self._chunks: dict[KVChunk, int] = {}  # the least recently used first
        self.used = 0
        self.tokens = 0

    def __contains__(self, chunk: KVChunk) -> bool:
        return chunk in self._chunks

    def __iter__(self) -> Iterator[KVChunk]:
        return iter(self._chunks)

    def add(self, chunk: KVChunk) -> list[KVChunk]:
        """Add a chunk's data; returns the evicted chunks, maybe this one itself."""
        assert chunk.data is not None
        if chunk not in self._chunks:
            self._chunks[chunk] = len(chunk.data)
            self.used += len(chunk.data)
            self.tokens += len(chunk.tokens)
        self.touch(chunk)
        limit = min(self.limit, self.used + self.spare())
        gone: list[KVChunk] = []
        for other in list(self._chunks):
            if self.used <= limit:
                break
            self.discard(other)
            gone.append(other)
        return gone

    def touch(self, chunk: KVChunk) -> None:
        """Note a use. Chunks before it count as used later: without them it is useless."""
        for used in reversed(chunk.path()):
            if (size := self._chunks.pop(used, None)) is not None:
                self._chunks[used] = size

    def discard(self, chunk: KVChunk) -> None:
        """Forget a chunk, if it is here."""
        size = self._chunks.pop(chunk, None)
        if size is not None:
            self.used -= size
            self.tokens -= len(chunk.tokens)

    def clear(self) -> list[KVChunk]:
        """Forget all; returns what was here, the least recently used first."""
        chunks = list(self._chunks)
        self._chunks.clear()
        self.used = self.tokens = 0
        return chunks


def _spare_memory() -> int:
    """What the machine has available but for a twentieth of it, at most 1 GiB."""
    machine = psutil.virtual_memory()
    return machine.available - min(machine.total // 20, _MOST_RESERVE)
