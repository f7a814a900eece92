"""Cuts the bytes of a worker's stdout into messages."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..worker_protocol import HEADER, MAX_FRAME, FromWorker, decode_from_worker


class FrameBuffer:
    """Bytes in as they come; `receive` gets each message as soon as it is whole."""

    def __init__(self, receive: Callable[[FromWorker], None]) -> None:
        self._receive = receive
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Take in what was read; raises `msgspec.MsgspecError` at what is no message."""
        buffer = self._bytes
        if not buffer and _end_of_frame(data, 0) == len(data):  # as it mostly is
            self._receive(decode_from_worker(data[HEADER.size :]))
            return
        buffer += data
        start = 0
        while (end := _end_of_frame(buffer, start)) <= len(buffer):
            self._receive(decode_from_worker(buffer[start + HEADER.size : end]))
            start = end
        del buffer[:start]


def _end_of_frame(data: bytes | bytearray, start: int) -> int:
    """Where the frame that begins at `start` ends, or at least its header, where that is cut."""
    body = start + HEADER.size
    if len(data) < body:
        return body
    (size,) = HEADER.unpack_from(data, start)
    if size > MAX_FRAME:
        raise msgspec.DecodeError(f"a frame of {size} bytes is out of bounds")
    return body + size
