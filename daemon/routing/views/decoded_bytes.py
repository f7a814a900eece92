"""Decodes bytes to readable text."""

from __future__ import annotations

import zlib

_MOST_DECODED = 65_536
_LEAST = 5


def as_text(data: bytes) -> str | None:
    """Return data as readable text, decompressed if needed; None if it is not text."""
    if data[:2] in (b"\x1f\x8b", b"x\x9c", b"x\x01", b"x\xda"):
        try:
            data = zlib.decompressobj(wbits=47).decompress(data, _MOST_DECODED)
        except zlib.error:
            return None
    wide = len(data) >= 8 and data[1::2].count(0) > len(data) // 3
    other = len(data) >= 8 and data[::2].count(0) > len(data) // 3
    try:
        said = data.decode("utf-16-le" if wide else "utf-16-be" if other else "utf-8")
    except UnicodeDecodeError:
        return None
    said = said[:_MOST_DECODED]
    odd = sum(not letter.isprintable() and not letter.isspace() for letter in said)
    return said if len(said) >= _LEAST and odd * 50 <= len(said) else None
