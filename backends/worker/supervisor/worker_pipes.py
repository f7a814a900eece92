"""The daemon's end of a worker's pipes: frames are handled in the call that reads them."""

from __future__ import annotations

import asyncio
import logging
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Callable

import msgspec

from ...base.framing import HEADER, MAX_FRAME
from ..worker_protocol import FromWorker, decode_from_worker

logger = logging.getLogger(__name__)

_STDOUT = 1


class WorkerPipes(SubprocessStreamProtocol):
    """Passes every message of a child to `receive`; its stdin and stderr are asyncio streams.

    A stream reader for stdout would cost three cycles of the event loop per token.
    """

    def __init__(
        self, receive: Callable[[FromWorker], None], *, limit: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        """`limit` bounds a line of stderr, in bytes."""
        super().__init__(limit=limit, loop=loop)
        self._frames = FrameBuffer(receive)
        self.over: asyncio.Future[str | None] = loop.create_future()
        """Done when no message follows; the result is the fault if the frames ended early."""
        self.closed = asyncio.Event()
        """Set when the child has closed its stdout."""

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Handle bytes that the child wrote."""
        if fd != _STDOUT:
            super().pipe_data_received(fd, data)
        elif not self.over.done():  # after a fault the pipe is only drained
            assert isinstance(data, bytes)
            self._take(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note the end of the frames."""
        super().pipe_connection_lost(fd, exc)
        if fd == _STDOUT:
            self.closed.set()
            self._end(None)

    def _take(self, data: bytes) -> None:
        """Handle frames; a fault ends the process, and with it the requests."""
        try:
            self._frames.feed(data)
        except msgspec.MsgspecError as error:
            self._end(f"The model's process sent something that is no message: {error}.")
        except Exception as error:
            logger.exception("a message of a worker could not be handled")
            self._end(f"A message of the model's process could not be handled: {error!r}.")

    def _end(self, fault: str | None) -> None:
        if not self.over.done():
            self.over.set_result(fault)


class FrameBuffer:
    """Splits bytes into frames; `receive` gets each message as soon as it is complete."""

    def __init__(self, receive: Callable[[FromWorker], None]) -> None:
        self._receive = receive
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes that were read; raises `msgspec.MsgspecError` for an invalid message."""
        buffer = self._bytes
        if not buffer and _end_of_frame(data, 0) == len(data):  # the usual case
            self._receive(decode_from_worker(data[HEADER.size :]))
            return
        buffer += data
        start = 0
        while (end := _end_of_frame(buffer, start)) <= len(buffer):
            self._receive(decode_from_worker(buffer[start + HEADER.size : end]))
            start = end
        del buffer[:start]


def _end_of_frame(data: bytes | bytearray, start: int) -> int:
    """Return the end of the frame at `start`, or of its header if that is incomplete."""
    body = start + HEADER.size
    if len(data) < body:
        return body
    (size,) = HEADER.unpack_from(data, start)
    if size > MAX_FRAME:
        raise msgspec.DecodeError(f"a frame of {size} bytes is out of bounds")
    return body + size
