"""`MemoryTier`: its limit to the byte."""

from __future__ import annotations

from ingle.backends.engine.kv_store.kv_chunk_file import CHUNK_TOKENS
from ingle.backends.engine.kv_store.kv_chunk_tree import ChunkTree, KVChunk
from ingle.backends.engine.kv_store.memory_tier import MemoryTier

from .test_kv_chunk_tree import IDENTITY, conversation, store


def chunk(value: int, size: int) -> KVChunk:
    (added,) = store(ChunkTree(IDENTITY), conversation((value, CHUNK_TOKENS)))
    added.data = bytes(size)
    return added


def test_chunks_may_fill_the_limit_exactly() -> None:
    tier = MemoryTier(100, spare=lambda: 2**30)
    first, second, third = chunk(1, 60), chunk(2, 40), chunk(3, 1)
    assert tier.add(first) == tier.add(second) == []
    assert tier.add(third) == [first]
    assert (tier.used, tier.tokens) == (41, 2 * CHUNK_TOKENS)


def test_machine_without_spare_memory_holds_what_is_there() -> None:
    tier = MemoryTier(100, spare=lambda: 0)
    assert tier.add(chunk(1, 60)) == []
