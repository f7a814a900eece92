"""Length-prefixed frames on the pipes between a process and its children."""

from __future__ import annotations

import struct
from typing import BinaryIO

HEADER = struct.Struct("<I")
"""A little-endian u32: the bytes of the body."""
MAX_FRAME = 256 * 2**20


def frame(body: bytes) -> bytes:
    """Return the frame of a body; raises ValueError above `MAX_FRAME`."""
    if len(body) > MAX_FRAME:
        raise ValueError(f"a message of {len(body)} bytes is longer than {MAX_FRAME}")
    return HEADER.pack(len(body)) + body


def read_body(stream: BinaryIO, limit: int = MAX_FRAME) -> bytes:
    """Return the body of the next frame.

    Raises `EOFError` at the end of the stream, ValueError for a body above `limit` bytes.
    """
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        raise EOFError("the stream ended")
    (length,) = HEADER.unpack(header)
    if length > limit:
        raise ValueError(f"a frame of {length} bytes is longer than {limit}")
    body = stream.read(length)
    if len(body) < length:
        raise EOFError("the stream ended within a frame")
    return body
