"""Decodes compressed request bodies, within bounds."""

from __future__ import annotations

import zlib

from ...errors import BodyTooLarge, InvalidBody, UnsupportedMediaType

_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""zlib's `wbits` of each coding."""


def decoded(body: bytes, coding: str, limit: int) -> bytes:
    """Return the body without its coding; raises `UnsupportedMediaType` for an unknown one,
    `InvalidBody`, and `BodyTooLarge` above `limit` bytes.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return body
    if coding not in _WINDOWS:
        raise UnsupportedMediaType(
            f"A body with the coding '{coding[:20]}' cannot be judged, so it was not sent.",
            hint="Turn off the compression of requests in the program's settings.",
        )
    decoder = zlib.decompressobj(_WINDOWS[coding])
    try:
        found = decoder.decompress(body, limit + 1)
    except zlib.error:
        raise InvalidBody(f"The body is not valid {coding}.") from None
    if len(found) > limit:
        raise BodyTooLarge.above(limit, "max_body_bytes")
    if not decoder.eof or decoder.unused_data:
        raise InvalidBody(f"The body is not valid {coding}.")
    return found
