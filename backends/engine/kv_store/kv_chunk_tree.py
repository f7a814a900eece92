"""The tree of stored chunks: tokens of conversations, with common prefixes stored once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .kv_chunk_file import CHUNK_TOKENS, ChunkHeader, Data, Tokens, chunk_key

_NOTHING = np.empty(0, np.int32)


@dataclass(eq=False, slots=True)
class KVChunk:
    """Some tokens after those of `parent`; `data` is their keys and values, where in memory."""

    key: bytes
    parent: KVChunk | None
    start: int
    tokens: Tokens
    children: dict[bytes, KVChunk] = field(default_factory=dict[bytes, "KVChunk"])
    data: Data | None = field(default=None, repr=False)
    on_disk: bool = False
    queued: bool = False
    """Whether it is on its way to the disk."""
    refused: bool = False
    """Whether there was no room for it on disk."""
    file_size: int = 0
    removed: bool = False

    @property
    def end(self) -> int:
        """Tokens up to here."""
        return self.start + len(self.tokens)

    def path(self) -> list[KVChunk]:
        """The chunks up to this one, the first one first; the root is none of them."""
        path: list[KVChunk] = []
        chunk = self
        while chunk.parent is not None:
            path.append(chunk)
            chunk = chunk.parent
        return path[::-1]


class ChunkTree:
    """The stored chunks by their tokens; common prefixes of conversations are stored once.

    Conversations are cut every `CHUNK_TOKENS` tokens, so that one that grows adds chunks and
    changes none; what is left at its end is a shorter chunk. The key of a chunk covers all tokens
    before it.
    """

    def __init__(self, identity: bytes) -> None:
        """`identity` is 32 bytes that stand for all else that keys and values depend on."""
        self.identity = identity
        self._root = KVChunk(identity, None, 0, _NOTHING)
        self._chunks: dict[bytes, KVChunk] = {}

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[KVChunk]:
        return iter(self._chunks.values())

    def get(self, key: bytes) -> KVChunk | None:
        """The chunk of that key."""
        return self._chunks.get(key)

    def match(self, tokens: Tokens) -> list[tuple[KVChunk, int]]:
        """The chunks with the longest prefix of the tokens, each with how many it has of them."""
        found: list[tuple[KVChunk, int]] = []
        chunk = self._root
        while True:
            rest = tokens[chunk.end : chunk.end + CHUNK_TOKENS]
            child, length = _most_alike(chunk.children.values(), rest)
            if child is None:
                return found
            found.append((child, length))
            if length < CHUNK_TOKENS:
                return found
            chunk = child

    def behind(self, tokens: Tokens) -> KVChunk | None:
        """The chunk with which exactly these tokens, whole chunks, end; the root for none."""
        chunk = self._root
        for start in range(0, len(tokens), CHUNK_TOKENS):
            key = chunk_key(self.identity, chunk.key, tokens[start : start + CHUNK_TOKENS])
            child = chunk.children.get(key)
            if child is None:
                return None
            chunk = child
        return chunk

    def add(self, parent: KVChunk, tokens: Tokens) -> KVChunk:
        """The chunk of these tokens after `parent`, created if it is missing."""
        key = chunk_key(self.identity, parent.key, tokens)
        chunk = self._chunks.get(key)
        if chunk is None:
            chunk = KVChunk(key, parent, parent.end, tokens.copy())
            parent.children[key] = self._chunks[key] = chunk
        return chunk

    def remove(self, chunk: KVChunk) -> list[KVChunk]:
        """Remove a chunk and its descendants, which could not be reached; returns them."""
        assert chunk.parent is not None
        chunk.parent.children.pop(chunk.key, None)
        removed = [chunk]
        for gone in removed:  # grows while it is walked
            removed.extend(gone.children.values())
            gone.removed = True
            self._chunks.pop(gone.key, None)
        return removed

    def superseded_by(self, chunk: KVChunk) -> list[KVChunk]:
        """Shorter chunks of the same parent whose tokens are a prefix of this one's."""
        assert chunk.parent is not None
        return [
            other
            for other in chunk.parent.children.values()
            if len(other.tokens) < len(chunk.tokens)
            and np.array_equal(other.tokens, chunk.tokens[: len(other.tokens)])
        ]

    def load(self, headers: Iterable[ChunkHeader]) -> list[ChunkHeader]:
        """Add the chunks of files; returns the headers whose parent is missing."""
        waiting: dict[bytes, list[ChunkHeader]] = {}
        for header in headers:
            waiting.setdefault(header.parent, []).append(header)
        parents = [self._root, *self]
        for parent in parents:  # grows while it is walked
            for header in waiting.pop(parent.key, ()) if _may_lead(parent) else ():
                chunk = self.add(parent, header.tokens)
                chunk.on_disk = True
                chunk.file_size = header.file_size
                parents.append(chunk)
        return [header for headers in waiting.values() for header in headers]


def _may_lead(chunk: KVChunk) -> bool:
    """Whether others can follow it: only the root and whole chunks have successors."""
    return chunk.parent is None or len(chunk.tokens) == CHUNK_TOKENS


def common_length(left: Tokens, right: Tokens) -> int:
    """How many leading tokens two arrays of one length have in common."""
    different = np.flatnonzero(left != right)
    return int(different[0]) if len(different) else len(left)


def _most_alike(chunks: Iterable[KVChunk], tokens: Tokens) -> tuple[KVChunk | None, int]:
    """The chunk that begins with most of the tokens; None where none begins with any."""
    best, best_length = None, 0
    for chunk in chunks:
        most = min(len(chunk.tokens), len(tokens))
        if most <= best_length:
            continue
        length = common_length(chunk.tokens[:most], tokens[:most])
        if length > best_length:
            best, best_length = chunk, length
    return best, best_length
