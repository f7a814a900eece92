"""Messages between `PictureDecoder` and its process, framed as the worker protocol."""

from __future__ import annotations

import msgspec


class DecodedPicture(msgspec.Struct, frozen=True):
    """The pixels of a picture, 3 bytes each, row by row, or the `text` of a document.

    Or else, a sentence says why not.
    """

    width: int = 0
    height: int = 0
    rgb: bytes = b""
    text: str = ""
    error: str = ""
