"""Chunk files: round trip, and rejection of truncated, corrupt and foreign files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.engine.kv_store.kv_chunk_file import (
    CHUNK_TOKENS,
    LONGEST_HEADER,
    BadChunkFile,
    ChunkHeader,
    decode_chunk,
    decode_header,
    encode_chunk,
)

IDENTITY, PARENT = b"i" * 32, b"p" * 32


def make_file(tokens: list[int], data: bytes) -> tuple[str, bytes]:
    header = ChunkHeader(IDENTITY, PARENT, np.array(tokens, np.int32), len(data))
    return header.file_name, b"".join(encode_chunk(header, data))


@given(
    tokens=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=CHUNK_TOKENS),
    data=st.binary(max_size=5000),
)
def test_round_trip(tokens: list[int], data: bytes) -> None:
    name, content = make_file(tokens, data)
    header, found = decode_chunk(content, name)
    assert header.tokens.tolist() == tokens
    assert (header.identity, header.parent, bytes(found)) == (IDENTITY, PARENT, data)
    assert header.file_size == len(content)
    again = decode_header(content[:LONGEST_HEADER], name, len(content))
    assert (again.key, again.data_size) == (header.key, len(data))


def test_truncated_file_is_rejected() -> None:
    name, content = make_file([1, 2, 3], b"keys and values")
    for length in range(len(content)):
        with pytest.raises(BadChunkFile):
            decode_chunk(content[:length], name)
        with pytest.raises(BadChunkFile):
            decode_header(content[:length], name, length)
    with pytest.raises(BadChunkFile):
        decode_chunk(content + b"\0", name)


def test_every_flipped_bit_is_detected() -> None:
    name, content = make_file([1, 2, 3], b"keys and values")
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadChunkFile):
            decode_chunk(damaged, name)


def test_renamed_file_is_rejected() -> None:
    name, content = make_file([1, 2, 3], b"data")
    other, _ = make_file([1, 2, 4], b"data")
    assert name != other
    with pytest.raises(BadChunkFile):
        decode_header(content, other, len(content))


@pytest.mark.parametrize("content", [b"", b"x" * 4000, b"INGLE-KV", b"\0" * LONGEST_HEADER])
def test_foreign_files_are_rejected(content: bytes) -> None:
    with pytest.raises(BadChunkFile):
        decode_chunk(content, "0" * 64 + ".kv")
