"""Decodes the pictures of requests, the same one once."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import msgspec
from msgspec import structs

from ingle.backends.base.conversation import ChatMessage, Picture
from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.framed_child import ChildDied, FramedChild, start_child
from ingle.backends.base.requests import GenerateRequest

from .picture_protocol import DecodedPicture

MOST_BYTES = 16 * 2**20
"""Of a picture's file."""
MOST_PICTURES = 64
"""Of one request."""
DECODE_SECONDS = 10.0
_MEMORY = 128 * 2**20
_IDLE_SECONDS = 60.0
_MODULE = "ingle.daemon.pictures.picture_process"


class PictureDecoder:
    """Has a process of its own decode files, which ends when there was nothing to do for a minute.

    For the event loop only. Pixels of the files decoded last are kept, 128 MiB at most.
    """

    def __init__(self, seconds: float = DECODE_SECONDS) -> None:
        """`seconds` bounds the decoding of one file."""
        self._process = _PictureProcess(seconds)
        self._thread = ThreadPoolExecutor(1, "pictures")
        self._kept: OrderedDict[bytes, Picture] = OrderedDict()
        self._idle: asyncio.TimerHandle | None = None

    async def decoded(self, request: GenerateRequest) -> GenerateRequest:
        """Return the request with pixels in place of files; raises `RequestRejected`."""
        messages = request.messages or []
        count = sum(len(message.pictures) for message in messages)
        if not count:
            return request
        if count > MOST_PICTURES:
            raise RequestRejected(
                f"The conversation has {count} pictures, more than {MOST_PICTURES}.",
                hint="Leave out the oldest ones.",
                param="messages",
            )
        return structs.replace(
            request, messages=[await self._message(message) for message in messages]
        )

    def close(self) -> None:
        """End the process."""
        if self._idle is not None:
            self._idle.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._process.close()

    async def _message(self, message: ChatMessage) -> ChatMessage:
        if not message.pictures:
            return message
        pictures = [await self._picture(picture) for picture in message.pictures]
        return structs.replace(message, pictures=pictures)

    async def _picture(self, picture: Picture) -> Picture:
        if len(picture.data) > MOST_BYTES:
            raise _rejected(f"its file has more than {MOST_BYTES // 2**20} MiB")
        digest = await asyncio.to_thread(_digest, picture.data)
        known = self._kept.pop(digest, None)
        if known is None:
            loop = asyncio.get_running_loop()
            known = await loop.run_in_executor(self._thread, self._process.decode, picture.data)
            self._end_when_idle(loop)
        self._kept[digest] = known
        while sum(len(kept.rgb) for kept in self._kept.values()) > _MEMORY:
            self._kept.popitem(last=False)
        return structs.replace(known, at=picture.at)

    def _end_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = loop.call_later(_IDLE_SECONDS, self._thread.submit, self._process.close)


class _PictureProcess(FramedChild):
    """Its memory is bounded, and a file that takes too long ends it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._lock = threading.Lock()

    def decode(self, data: bytes) -> Picture:
        """Return the pixels; raises `RequestRejected`."""
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                self.close()
                process = self._process = start_child(_MODULE)
            try:
                answer = self._ask(process, data, self._seconds)
                found = msgspec.msgpack.decode(answer, type=DecodedPicture)
            except TimeoutError:
                raise _rejected(f"it takes more than {self._seconds:.0f} seconds") from None
            except (ChildDied, msgspec.MsgspecError):
                raise _rejected("its file ended the process that reads it") from None
        if found.error:
            raise _rejected(found.error)
        return Picture(width=found.width, height=found.height, rgb=found.rgb)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _rejected(reason: str) -> RequestRejected:
    return RequestRejected(
        f"A picture cannot be read: {reason}.",
        hint="Send a PNG, JPEG, WebP or GIF file of a usual size.",
        code="invalid_picture",
        param="messages",
    )
