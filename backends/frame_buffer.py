"""Cuts the bytes of a worker's stdout into messages."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .messages import HEADER, MAX_FRAME, FromWorker, decode_from_worker


class FrameBuffer:
    """Bytes in as they come, messages out as they become whole."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[FromWorker]:
        """The messages that end in `data`; raises `msgspec.MsgspecError` at what is none."""
        buffer = self._bytes
        buffer += data
        start = 0
        while len(buffer) - start >= HEADER.size:
            (size,) = HEADER.unpack_from(buffer, start)
            if size > MAX_FRAME:
                raise msgspec.DecodeError(f"a frame of {size} bytes is out of bounds")
            body = start + HEADER.size
            if len(buffer) < body + size:
                break
            start = body + size
            yield decode_from_worker(buffer[body:start])
        del buffer[:start]
