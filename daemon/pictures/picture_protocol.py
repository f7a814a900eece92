"""Messages between `PictureDecoder` and its process, framed as the worker protocol."""

from __future__ import annotations

import msgspec


class DecodeTask(msgspec.Struct, frozen=True):
    """A file; a picture is scaled down to fit `within` columns and rows of pixels, if any."""

    data: bytes
    within: tuple[int, int] | None = None


class DecodedPicture(msgspec.Struct, frozen=True):
    """The pixels of a picture, 3 bytes each, row by row, or the `text` of a document.

    Or else, a sentence says why not.
    """

    width: int = 0
    height: int = 0
    rgb: bytes = b""
    text: str = ""
    error: str = ""
