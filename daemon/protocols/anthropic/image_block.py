"""Pictures in the content blocks of Anthropic's clients."""

from __future__ import annotations

import msgspec

from ingle.backends.base.conversation import Picture

from ...errors import UnsupportedField
from ..picture_parts import base64_bytes, read_picture


class Unreadable(UnsupportedField):
    """The block is of a type that a text model cannot read."""


class ImageSource(msgspec.Struct):
    """The source of a picture: `data` of the type base64."""

    type: str
    data: str | None = None
    url: str | None = None


class Image(msgspec.Struct):
    """A picture."""

    source: ImageSource


def picture_of(image: Image, place: str, *, may_fetch: bool) -> Picture:
    """Return the picture of a block; raises `InvalidBody` and `UnsupportedField`."""
    source = image.source
    if source.type == "url":
        return read_picture(source.url, f"{place}.source.url", may_fetch=may_fetch)
    if source.type != "base64":
        raise Unreadable(
            f"'{place}.source' is of type {source.type[:40]!r}, and no file of that kind is here.",
            hint="Send the picture itself, as a source of type 'base64'.",
            param=f"{place}.source",
        )
    return Picture(data=base64_bytes(source.data, f"{place}.source.data"))
