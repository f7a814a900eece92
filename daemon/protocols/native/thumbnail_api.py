"""`POST /ingle/v1/thumbnail`: a small copy of a picture, for clients that draw with characters."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated

import msgspec
from msgspec import Meta

from ...client.document_types import Thumbnail
from ...http.route_access import INFERENCE
from ..picture_parts import data_uri_bytes
from ..services_api import ServicesApi
from .native_api import native_route

Pixels = Annotated[int, Meta(ge=1, le=256)]


class ThumbnailRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A picture as a data URI, and the most pixels of the copy."""

    picture: str
    width: Pixels
    height: Pixels


class ThumbnailApi(ServicesApi):
    """Pictures are decoded in their process, as those of messages are."""

    @native_route("POST", "/ingle/v1/thumbnail", access=INFERENCE, errors=(413, 422))
    async def thumbnail(self, body: ThumbnailRequest) -> Thumbnail:
        """A small copy of a picture, in its shape."""
        data = data_uri_bytes(body.picture, "picture")
        pictures = self._services.manager.pictures
        found = await pictures.thumbnail(data, (body.width, body.height))
        rgb = b64encode(found.rgb).decode()
        return Thumbnail(width=found.width, height=found.height, rgb=rgb)
