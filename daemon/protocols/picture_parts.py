"""Pictures and documents in messages: data URIs and base64, and their places in the text."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any, cast

from msgspec import structs

from ingle.backends.base.conversation import PDFFile, Picture

from ..access.permission import current_permission
from ..errors import InvalidBody, UnsupportedField

_WEB = ("http://", "https://")
_REMOTE = (*_WEB, "file://")
_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")


class MessageContent:
    """The text of a message, joined from its parts, and the files between them."""

    def __init__(self, separator: str = "\n") -> None:
        self._separator = separator
        self._parts: list[str] = []
        self._length = 0
        self.pictures: list[Picture] = []
        self.documents: list[PDFFile] = []

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def text(self) -> str:
        """Return the text, in which a file is an empty part."""
        return self._separator.join(self._parts)

    def add_text(self, text: str) -> None:
        """Append a part of text."""
        self._length += len(text) + (len(self._separator) if self._parts else 0)
        self._parts.append(text)

    def add_picture(self, picture: Picture) -> None:
        """Append a picture, whose place is here."""
        self.add_text("")
        self.pictures.append(structs.replace(picture, at=self._length))

    def add_document(self, name: str, data: bytes) -> None:
        """Append a PDF file."""
        self.add_text("")
        self.documents.append(PDFFile(self._length, name, data))


def read_picture(uri: object, place: str, *, may_fetch: bool = True) -> Picture:
    """Return the picture in a data URI, or one to fetch if that is allowed.

    Raises `InvalidBody`, and `UnsupportedField` for other addresses.
    """
    fetches = may_fetch and current_permission().fetches
    if fetches and isinstance(uri, str) and uri.startswith(_WEB):
        return Picture(address=uri)
    return Picture(data=data_uri_bytes(uri, place, may_fetch=may_fetch))


def data_uri_bytes(uri: object, place: str, *, may_fetch: bool = False) -> bytes:
    """The picture in a data URI; `may_fetch` says that the owner can allow addresses here.

    Raises `InvalidBody`, and `UnsupportedField` for other addresses.
    """
    text = uri if isinstance(uri, str) else ""
    if text.startswith(_REMOTE):
        raise UnsupportedField(
            f"'{place}' is an address, and files are not fetched: that would tell its server "
            "of this request.",
            hint="Send the file itself, as a data URI (`data:image/png;base64,…`)."
            + (" For chats, `picture_urls = true` in config.toml allows it." if may_fetch else ""),
            param=place,
        )
    head, comma, body = text.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise InvalidBody(
            f"'{place}' is no data URI.",
            hint="It must begin with `data:image/png;base64,`, or another type of picture.",
            param=place,
        )
    return base64_bytes(body, place)


def base64_bytes(text: object, place: str) -> bytes:
    """The file in base64; raises `InvalidBody` for anything but a picture."""
    data = _decoded(text)
    if not data.startswith(_SIGNATURES):
        raise InvalidBody(
            f"'{place}' holds no picture.",
            hint="It must be a PNG, JPEG, WebP or GIF file in base64.",
            code="invalid_picture",
            param=place,
        )
    return data


def document_bytes(text: object, place: str) -> bytes:
    """The file in base64 or a data URI; raises `InvalidBody` for anything but a PDF."""
    if isinstance(text, str) and text.startswith("data:"):
        text = text.partition(",")[2]
    data = _decoded(text)
    if not data.startswith(b"%PDF-"):
        raise InvalidBody(
            f"'{place}' holds no PDF.",
            hint="It must be a PDF file in base64. Send other documents as text.",
            code="invalid_document",
            param=place,
        )
    return data


def _decoded(text: object) -> bytes:
    try:
        return b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""


def read_image_url(part: object, place: str, *, may_fetch: bool) -> Picture:
    """Return the picture of OpenAI's `image_url`, an object with a `url`, or that itself."""
    if isinstance(part, dict):
        part, place = cast("dict[str, Any]", part).get("url"), f"{place}.url"
    return read_picture(part, place, may_fetch=may_fetch)
