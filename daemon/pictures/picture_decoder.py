"""Decodes the pictures and documents of requests, the same one once."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
from msgspec import structs

from ingle.backends.base.conversation import ChatMessage, PDFFile, Picture
from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.framed_child import ChildDied, FramedChild, start_child
from ingle.backends.base.requests import GenerateRequest

from .picture_protocol import DecodedPicture, DecodeTask

MOST_BYTES = 16 * 2**20
"""Of one file."""
MOST_FILES = 64
"""Of one request."""
MOST_PIXELS = 64_000_000
"""Of one request, each picture scaled down as it is: they are one message to the model."""
DECODE_SECONDS = 10.0
A_PICTURE = "A picture"
_MEMORY = 128 * 2**20
_IDLE_SECONDS = 60.0
_MODULE = "ingle.daemon.pictures.picture_process"


FetchPicture = Callable[[str, int], Awaitable[bytes]]
"""Returns the file at an address, of which little more than so many bytes is read."""


class PictureDecoder:
    """Has a process of its own decode files, which ends when there was nothing to do for a minute.

    For the event loop only. Pixels of the files decoded last are kept, 128 MiB at most.
    """

    def __init__(self) -> None:
        self.fetch: FetchPicture | None = None
        """Brings pictures that have only an address; without it they are refused."""
        self._process = DecodingProcess()
        self._thread = ThreadPoolExecutor(1, "pictures")
        self._kept: OrderedDict[bytes, DecodedPicture] = OrderedDict()
        self._idle: asyncio.TimerHandle | None = None

    async def decoded(self, request: GenerateRequest) -> GenerateRequest:
        """Return the request with pixels and text in place of files; raises `RequestRejected`."""
        messages = request.messages or []
        count = sum(len(message.pictures) + len(message.documents) for message in messages)
        count += len(request.pictures)
        if not count:
            return request
        if count > MOST_FILES:
            raise RequestRejected(
                f"The conversation has {count} files, more than {MOST_FILES}.",
                hint="Leave out the oldest ones.",
                param="messages",
            )
        if request.pictures:
            shown = await self._message(
                ChatMessage("user", "", pictures=request.pictures), MOST_PIXELS, request.private
            )
            return structs.replace(request, pictures=shown.pictures)
        decoded: list[ChatMessage] = []
        pixels = 0
        for message in messages:
            decoded.append(await self._message(message, MOST_PIXELS - pixels, request.private))
            pixels += sum(len(picture.rgb) // 3 for picture in decoded[-1].pictures)
        return structs.replace(request, messages=decoded)

    async def thumbnail(self, data: bytes, within: tuple[int, int]) -> DecodedPicture:
        """Return a picture that fits into so many columns and rows; raises `RequestRejected`."""
        loop = asyncio.get_running_loop()
        decode = partial(self._process.decode, data, A_PICTURE, within)
        found = await loop.run_in_executor(self._thread, decode)
        self._end_when_idle(loop)
        return found

    def close(self) -> None:
        """End the process."""
        if self._idle is not None:
            self._idle.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._process.close()

    async def _message(self, message: ChatMessage, most_pixels: int, private: bool) -> ChatMessage:
        pictures: list[Picture] = []
        for picture in message.pictures:
            if picture.address:
                found = await self._at(picture.address, private)
            else:
                found = await self._decode(picture.data, A_PICTURE)
            most_pixels -= len(found.rgb) // 3
            if most_pixels < 0:
                raise RequestRejected(
                    f"The pictures of the conversation have more than {MOST_PIXELS:,} pixels "
                    "together.",
                    hint="Leave out the oldest ones, or send smaller ones.",
                    param="messages",
                )
            pictures.append(Picture(picture.at, b"", found.width, found.height, found.rgb))
        message = structs.replace(message, pictures=pictures)
        # From the last on, so that the places of those before stay.
        for document in sorted(message.documents, key=_place, reverse=True):
            found = await self._decode(document.data, f"The document {document.name}")
            text = f'<file name="{document.name}">\n{found.text}\n</file>'
            message = _with_text(message, document.at, text)
        return structs.replace(message, documents=[])

    async def _at(self, address: str, private: bool) -> DecodedPicture:
        """Return the picture at an address; the next turns of a conversation fetch it no more."""
        key = address.encode()
        known = self._kept.get(key)
        if known is None:
            if private or self.fetch is None:
                raise _rejected(A_PICTURE, "to fetch it would tell its server of this request")
            data = await self.fetch(address, MOST_BYTES)
            known = await self._decode(data, A_PICTURE, key)
        else:
            self._keep(key, known)
        return known

    async def _decode(self, data: bytes, what: str, key: bytes = b"") -> DecodedPicture:
        """Return what a file holds, to be kept by `key`, or by its digest."""
        if len(data) > MOST_BYTES:
            raise _rejected(what, f"its file has more than {MOST_BYTES // 2**20} MiB")
        key = key or await asyncio.to_thread(_digest, data)
        known = self._kept.get(key)
        if known is None:
            loop = asyncio.get_running_loop()
            known = await loop.run_in_executor(self._thread, self._process.decode, data, what)
            self._end_when_idle(loop)
        self._keep(key, known)
        return known

    def _keep(self, key: bytes, known: DecodedPicture) -> None:
        self._kept[key] = known
        self._kept.move_to_end(key)
        while sum(len(kept.rgb) + len(kept.text) for kept in self._kept.values()) > _MEMORY:
            self._kept.popitem(last=False)

    def _end_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = loop.call_later(_IDLE_SECONDS, self._thread.submit, self._process.close)


class DecodingProcess(FramedChild):
    """Its memory is bounded, and a file that takes too long ends it; blocking, for any thread."""

    def __init__(self) -> None:
        super().__init__()
        self._seconds = DECODE_SECONDS
        self._lock = threading.Lock()

    def decode(
        self, data: bytes, what: str, within: tuple[int, int] | None = None
    ) -> DecodedPicture:
        """Return the pixels or the text of `what`; see `DecodeTask`. Raises `RequestRejected`."""
        task = msgspec.msgpack.encode(DecodeTask(data, within))
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                self.close()
                process = self._process = start_child(_MODULE)
            try:
                answer = self._ask(process, task, self._seconds)
                found = msgspec.msgpack.decode(answer, type=DecodedPicture)
            except TimeoutError:
                raise _rejected(what, f"it takes more than {self._seconds:.0f} seconds") from None
            except (ChildDied, msgspec.MsgspecError):
                raise _rejected(what, "its file ended the process that reads it") from None
        if found.error:
            raise _rejected(what, found.error)
        return found


def _with_text(message: ChatMessage, at: int, text: str) -> ChatMessage:
    """Return the message with another text at a place, and its pictures behind that moved."""
    content = message.content
    pictures = [
        structs.replace(picture, at=picture.at + len(text)) if picture.at > at else picture
        for picture in message.pictures
    ]
    return structs.replace(message, content=content[:at] + text + content[at:], pictures=pictures)


def _place(document: PDFFile) -> int:
    return document.at


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _rejected(what: str, reason: str) -> RequestRejected:
    if what == A_PICTURE:
        hint, code = "Send a PNG, JPEG, WebP or GIF file of a usual size.", "invalid_picture"
    else:
        hint, code = "Send its text, or its pages as pictures.", "invalid_document"
    return RequestRejected(
        f"{what} cannot be read: {reason}.", hint=hint, code=code, param="messages"
    )
