"""The file of a stored chunk: a header, token ids, keys and values.

Everything is little-endian: magic, version, the number of tokens, the length of the data, the
identity of model and engine, the key of the chunk before, a digest of all the rest; then the token
ids (int32), then the data. A file counts only when it is exactly that
long, when its name is the key that its header gives, and when its digest is right.

SHA-256 is the digest because processors have instructions for it: 1.9 GB/s where BLAKE2b does 1.3.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]
Data = bytes | memoryview

FORMAT_VERSION = 1
CHUNK_TOKENS = 256
"""Tokens of a whole chunk. Only whole chunks have successors."""

SUFFIX = ".kv"

_MAGIC = b"INGLE-KV"
_FIELDS = struct.Struct("<8sIIQ32s32s")
_DIGEST_SIZE = 32
_HEADER_SIZE = _FIELDS.size + _DIGEST_SIZE
LONGEST_HEADER = _HEADER_SIZE + 4 * CHUNK_TOKENS
"""Bytes to read for the header with its tokens, whatever their number."""


class BadChunkFile(Exception):
    """The file is torn, damaged, or not a chunk."""


@dataclass(frozen=True)
class ChunkHeader:
    """What a chunk is; `parent` is the key of the one before, `data_size` in bytes."""

    identity: bytes
    parent: bytes
    tokens: Tokens
    data_size: int

    @property
    def key(self) -> bytes:
        """The chunk's key: a digest of everything that its data depends on."""
        return chunk_key(self.identity, self.parent, self.tokens)

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return file_name(self.key)

    @property
    def file_size(self) -> int:
        """Bytes of the whole file."""
        return _HEADER_SIZE + 4 * len(self.tokens) + self.data_size


def chunk_key(identity: bytes, parent: bytes, tokens: Tokens) -> bytes:
    """The key of the tokens after the chunk `parent`."""
    return hashlib.sha256(identity + parent + _token_bytes(tokens)).digest()


def file_name(key: bytes) -> str:
    """The name of a chunk's file."""
    return key.hex() + SUFFIX


def encode_chunk(header: ChunkHeader, data: Data) -> tuple[bytes, Data]:
    """The two parts of the file, so that the large one is not copied."""
    fields = _FIELDS.pack(
        _MAGIC,
        FORMAT_VERSION,
        len(header.tokens),
        len(data),
        header.identity,
        header.parent,
    )
    tokens = _token_bytes(header.tokens)
    return fields + _digest(fields, tokens, data) + tokens, data


def decode_header(head: bytes, name: str, size: int) -> ChunkHeader:
    """The header in the first `LONGEST_HEADER` bytes of a file of that name and size.

    Raises `BadChunkFile`. The data is not read, but the header is verified: its tokens and
    the chunk before are in the name.
    """
    if len(head) < _HEADER_SIZE:
        raise BadChunkFile(f"{name} is too short")
    magic, version, count, data_size, identity, parent = _FIELDS.unpack_from(head)
    if magic != _MAGIC or version != FORMAT_VERSION:
        raise BadChunkFile(f"{name} is none of ours, or of another version")
    if not 0 < count <= CHUNK_TOKENS or len(head) < _HEADER_SIZE + 4 * count:
        raise BadChunkFile(f"{name} has no tokens, or too many")
    tokens = np.frombuffer(head, "<i4", count, _HEADER_SIZE).astype(np.int32)
    header = ChunkHeader(identity, parent, tokens, data_size)
    if header.file_size != size or header.file_name != name:
        raise BadChunkFile(f"{name} is torn, or not what it says")
    return header


def decode_chunk(content: bytes | bytearray, name: str) -> tuple[ChunkHeader, memoryview]:
    """Header and data of a whole file; raises `BadChunkFile`."""
    header = decode_header(bytes(content[:LONGEST_HEADER]), name, len(content))
    view = memoryview(content)
    data_at = _HEADER_SIZE + 4 * len(header.tokens)
    digest = _digest(view[: _FIELDS.size], view[_HEADER_SIZE:data_at], view[data_at:])
    if bytes(view[_FIELDS.size : _HEADER_SIZE]) != digest:
        raise BadChunkFile(f"{name} is damaged")
    return header, view[data_at:]


def _token_bytes(tokens: Tokens) -> bytes:
    return tokens.astype("<i4", copy=False).tobytes()


def _digest(fields: Data, tokens: Data, data: Data) -> bytes:
    digest = hashlib.sha256(fields)
    digest.update(tokens)
    digest.update(data)
    return digest.digest()


@dataclass(frozen=True)
class StoredPart:
    """The tokens `start` to `end` of a sequence, from a snapshot of `size` tokens that may be more.

    A part begins where a stored chunk does, and the next one where it ends.
    """

    start: int
    end: int
    size: int
    data: Data = field(repr=False)
