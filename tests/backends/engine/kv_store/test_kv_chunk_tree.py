"""`ChunkTree`: the longest stored prefix is found, independent of the order of insertion."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.engine.kv_store.kv_chunk_file import CHUNK_TOKENS, ChunkHeader, Tokens
from ingle.backends.engine.kv_store.kv_chunk_tree import ChunkTree, KVChunk

IDENTITY = b"i" * 32


def store(tree: ChunkTree, tokens: Tokens) -> list[KVChunk]:
    """Store a conversation of any length as `KVStore` does, in memory only."""
    added: list[KVChunk] = []
    for start in range(0, len(tokens), CHUNK_TOKENS):
        parent = tree.behind(tokens[:start])
        assert parent is not None
        added.append(tree.add(parent, tokens[start : start + CHUNK_TOKENS]))
        for other in tree.superseded_by(added[-1]):
            tree.remove(other)
    return added


def conversation(*parts: tuple[int, int]) -> Tokens:
    """Return tokens in runs, given as pairs of a value and a length."""
    return np.concatenate([np.full(length, value, np.int32) for value, length in parts])


def common(left: Tokens, right: Tokens) -> int:
    most = min(len(left), len(right))
    different = np.flatnonzero(left[:most] != right[:most])
    return int(different[0]) if len(different) else most


conversations = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 400)), min_size=1, max_size=4
).map(lambda parts: conversation(*parts))


@given(stored=st.lists(conversations, max_size=6), wanted=conversations)
def test_match_is_the_longest_common_prefix_of_any_conversation(
    stored: list[Tokens], wanted: Tokens
) -> None:
    tree = ChunkTree(IDENTITY)
    for tokens in stored:
        store(tree, tokens)
    path = tree.match(wanted)
    length = sum(taken for _, taken in path)
    assert length == max((common(tokens, wanted) for tokens in stored), default=0)
    at = 0
    for chunk, taken in path:
        assert chunk.start == at
        assert chunk.tokens[:taken].tolist() == wanted[at : at + taken].tolist()
        at += taken
    for _, taken in path[:-1]:
        assert taken == CHUNK_TOKENS


@given(stored=st.lists(conversations, max_size=6), order=st.randoms())
def test_tree_loaded_from_files_in_any_order_is_equal(
    stored: list[Tokens], order: random.Random
) -> None:
    tree = ChunkTree(IDENTITY)
    for tokens in stored:
        store(tree, tokens)
    headers = [
        ChunkHeader(IDENTITY, chunk.parent.key, chunk.tokens, 5)
        for chunk in tree
        if chunk.parent is not None
    ]
    order.shuffle(headers)
    loaded = ChunkTree(IDENTITY)
    assert loaded.load(headers) == []
    assert {chunk.key: chunk.start for chunk in loaded} == {
        chunk.key: chunk.start for chunk in tree
    }
    assert all(chunk.on_disk for chunk in loaded)


def test_conversations_share_chunks_of_a_common_prefix() -> None:
    tree = ChunkTree(IDENTITY)
    store(tree, conversation((1, 600)))
    store(tree, conversation((1, 512), (2, 100)))
    assert sorted(chunk.end for chunk in tree) == [256, 512, 600, 612]


def test_appending_tokens_replaces_only_the_last_chunk() -> None:
    tree = ChunkTree(IDENTITY)
    store(tree, conversation((1, 600)))
    store(tree, conversation((1, 640)))
    assert sorted(chunk.end for chunk in tree) == [256, 512, 640]
    store(tree, conversation((1, 800)))
    assert sorted(chunk.end for chunk in tree) == [256, 512, 768, 800]


def test_removing_a_chunk_removes_its_successors() -> None:
    tree = ChunkTree(IDENTITY)
    chunks = store(tree, conversation((1, 1000)))
    assert [chunk.end for chunk in chunks[-1].path()] == [256, 512, 768, 1000]
    assert len(tree.remove(chunks[1])) == 3
    assert [chunk.end for chunk in tree] == [256]
    assert tree.behind(conversation((1, 512))) is None


def test_load_returns_orphaned_chunks() -> None:
    tree = ChunkTree(IDENTITY)
    chunks = store(tree, conversation((1, 1000)))
    headers = [
        ChunkHeader(IDENTITY, chunk.parent.key, chunk.tokens, 5)
        for chunk in (chunks[0], chunks[2], chunks[3])
        if chunk.parent is not None
    ]
    orphans = ChunkTree(IDENTITY).load(headers)
    assert {orphan.key for orphan in orphans} == {chunks[2].key, chunks[3].key}


def test_successor_of_a_partial_chunk_is_orphaned() -> None:
    first = ChunkHeader(IDENTITY, IDENTITY, conversation((1, 10)), 5)
    second = ChunkHeader(IDENTITY, first.key, conversation((2, 10)), 5)
    tree = ChunkTree(IDENTITY)
    assert tree.load([first, second]) == [second]
