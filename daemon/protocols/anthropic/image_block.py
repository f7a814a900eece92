"""Pictures in the content blocks of Anthropic's clients."""

from __future__ import annotations

import msgspec

from ...errors import UnsupportedField
from ..picture_parts import base64_bytes, data_uri_bytes


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


def image_bytes(image: Image, place: str) -> bytes:
    """The file of a picture; raises `InvalidBody` and `UnsupportedField`."""
    source = image.source
    if source.type == "url":
        return data_uri_bytes(source.url, f"{place}.source.url")
    if source.type != "base64":
        raise Unreadable(
            f"'{place}.source' is of type {source.type[:40]!r}, and no file of that kind is here.",
            hint="Send the picture itself, as a source of type 'base64'.",
            param=f"{place}.source",
        )
    return base64_bytes(source.data, f"{place}.source.data")
