"""Pictures and PDF files that are damaged, or made to exhaust what reads them."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from .small_pdf import write_objects, write_small_pdf

RED = (255, 0, 0)
KINDS = ("PNG", "JPEG", "WEBP", "GIF")


def file_of(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Return the file of a picture."""
    out = BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def noise(kind: str) -> bytes:
    """Return the file of 64 × 64 random pixels, the same ones each time."""
    pixels = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return file_of(Image.fromarray(pixels), kind)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(
    width: int, height: int, data: bytes, *, between: bytes = b"", depth: int = 8, colour: int = 0
) -> bytes:
    """Return a PNG file with this header, compressed data, and chunks before the data."""
    sizes = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = _chunk(b"IHDR", sizes) + between + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _jpeg(width: int, height: int, after: bytes = b"") -> bytes:
    frame = struct.pack(">BHHBBBB", 8, height, width, 1, 1, 0x11, 0)
    return b"\xff\xd8\xff\xc0" + struct.pack(">H", len(frame) + 2) + frame + after


def _webp(width: int, height: int) -> bytes:
    sizes = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", len(sizes)) + sizes + noise("WEBP")[12:]
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _exif_in_a_circle() -> bytes:
    # A directory of tags that says it is followed by itself.
    tags = b"II*\0\x08\0\0\0" + struct.pack("<HHHII", 1, 0x8769, 4, 1, 8) + struct.pack("<I", 8)
    return file_of(Image.new("RGB", (6, 4)), "JPEG", exif=b"Exif\0\0" + tags)


_BOMB = zlib.compress(bytes(2**26), 9)
HOSTILE_PICTURES = {
    "nothing": b"",
    "text": b"hello",
    "script": b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>",
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "tiff": file_of(Image.new("RGB", (6, 4)), "TIFF"),
    "bmp": file_of(Image.new("RGB", (6, 4)), "BMP"),
    "ico": file_of(Image.new("RGB", (16, 16)), "ICO"),
    "50,000 pixels a side": png(50_000, 50_000, zlib.compress(b"\0" * 100)),
    "50,000 pixels a side, JPEG": _jpeg(50_000, 50_000, b"\xff\xda\0\x08\x01\x01\0\0\x3f\0abc"),
    "50,000 pixels a side, GIF": b"GIF89a\x50\xc3\x50\xc3\0\0\0\x2c" + bytes(4) + b"\x50\xc3" * 2,
    "50,000 pixels a side, WebP": _webp(50_000, 50_000),
    "most pixels a header can say": png(2**31 - 1, 2**31 - 1, b""),
    "no width": png(0, 4, zlib.compress(b"\0")),
    "no height, JPEG": _jpeg(4, 0),
    "text bomb": png(4, 4, b"", between=_chunk(b"zTXt", b"a\0\0" + _BOMB)),
    "international text bomb": png(4, 4, b"", between=_chunk(b"iTXt", b"a\0\1\0\0\0" + _BOMB)),
    "profile bomb": png(4, 4, b"", between=_chunk(b"iCCP", b"a\0\0" + _BOMB)),
    "no pixels": png(64, 64, b""),
    "wrong pixels": png(64, 64, b"x" * 500),
    "wrong depth": png(64, 64, zlib.compress(bytes(5000)), depth=7),
    "wrong colours": png(64, 64, zlib.compress(bytes(5000)), colour=5),
    "a chunk without end": noise("PNG")[:33] + b"\x7f\xff\xff\xffIDATabc",
    "two heads": noise("PNG")[:33] + noise("PNG")[8:33] + b"\0" * 40,
    "gif of another size": b"GIF89a\xff\xff\xff\xff\x00\x00\x00\x2c" + bytes(4) + b"\xff" * 60,
    "riff": b"RIFF\xff\xff\xff\x7fWEBPVP8 " + b"\xff" * 60,
    "jpeg head": b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + b"\xff" * 90,
    "jpeg without tables": _jpeg(64, 64, b"\xff\xda\0\x08\x01\x01\0\0\x3f\0" + b"\x12" * 90),
    **{f"half a {kind}": noise(kind)[: len(noise(kind)) // 2] for kind in ("PNG", "WEBP")},
    **{f"head of a {kind}": noise(kind)[:30] for kind in KINDS},
}
"""Pictures that cannot be read."""

HARMLESS_PICTURES = {
    "64 million equal pixels": png(8000, 8000, zlib.compress(bytes(8001 * 8000), 1)),
    "data behind the pixels": png(4, 4, zlib.compress(bytes(20)) + _BOMB),
    "tags in a circle": _exif_in_a_circle(),
    "a JPEG with a PDF behind it": noise("JPEG") + write_small_pdf("hidden"),
}
"""Odd pictures that can be read, within the limits."""


_RESOURCES = "/Resources << /Font << /F 5 0 R >> /XObject << /X 6 0 R >> >>"
_HELVETICA = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def _pdf(content: bytes, *, head: str = "", font: bytes = _HELVETICA, form: bytes = b"7") -> bytes:
    """Return a page with a content stream, a font and a form; `head` is the stream's."""
    page = f"<< /Type /Page /Parent 2 0 R /Contents 4 0 R {_RESOURCES} >>"
    return write_objects(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
            page.encode(),
            _stream(content, head),
            font,
            form,
            _stream(_RANGES + b"<0000> <ffffffff> <0000>\n" * 100 + b"endbfrange"),
        ]
    )


def _stream(content: bytes, head: str = "") -> bytes:
    start = f"<< /Length {len(content)} {head} >>\nstream\n".encode()
    return start + content + b"\nendstream"


_RANGES = b"1 begincodespacerange <0000> <ffff> endcodespacerange\n100 beginbfrange\n"
HOSTILE_DOCUMENTS = {
    "nothing": b"%PDF-1.4",
    "no text": write_small_pdf("", stream=zlib.compress(b"0 0 9 9 re f")),
    "half": write_small_pdf("words" * 100)[:300],
    "pages in a circle": write_small_pdf("words", kids="2 0 R"),
    "bomb": write_small_pdf("words", stream=_BOMB),
    "bomb in a bomb": _pdf(
        zlib.compress(zlib.compress(bytes(2**27), 9), 9), head="/Filter [/Fl /Fl]"
    ),
    "a hundred filters": _pdf(zlib.compress(b"a"), head=f"/Filter [{'/FlateDecode ' * 100}]"),
    "bomb of run lengths": _pdf(b"\x81\0" * 2**19, head="/Filter /RunLengthDecode"),
    "wrong LZW": _pdf(b"\x80" * 9999, head="/Filter /LZWDecode"),
    "noise": b"%PDF-1.7\n" + bytes(range(256)) * 40,
    "more pages than there are": write_small_pdf("words").replace(
        b"/Count 1", b"/Count 9" + b"9" * 9
    ),
    "1,001 pages": write_small_pdf(*["words"] * 1001),
    "deep": b"%PDF-1.4\n1 0 obj\n" + b"[" * 100_000 + b"\nendobj\ntrailer << /Root 1 0 R >>",
    "deep dictionaries": b"%PDF-1.4\n1 0 obj\n" + b"<</a " * 50_000 + b"\ntrailer <</Root 1 0 R>>",
    "a form that draws itself": _pdf(
        b"/X Do", form=_stream(b"/X Do", f"/Type /XObject /Subtype /Form {_RESOURCES}")
    ),
    "contents in a circle": _pdf(b"")
    .replace(b"/Contents 4 0 R", b"/Contents [6 0 R]")
    .replace(b"6 0 obj\n7", b"6 0 obj\n[6 0 R 6 0 R]"),
    "a length in a circle": write_objects([b"<< /Length 1 0 R >>\nstream\nendstream"]),
    "the table before is itself": write_objects([b"<< /Pages 1 0 R >>"], more="/Prev 9"),
    "a page that is its own parent": write_objects(
        [b"<< /Pages 2 0 R >>", b"<< /Type /Page /Parent 2 0 R /Kids [2 0 R] >>"]
    ),
    "a catalog that is a number": write_objects([b"7"]),
    "a number of a million digits": write_objects([b"<< /Pages " + b"9" * 1_000_000 + b" >>"]),
    "locked": write_objects(
        [b"<< /Pages 2 0 R >>", b"<< /Count 0 /Kids [] >>", b"<< /Filter /Standard /V 9 /R 9 >>"],
        more="/Encrypt 3 0 R",
    ),
    "a million states": _pdf(b"q " * 1_000_000),
    "a text without end": _pdf(b"BT (" + b"(" * 500_000),
    "an inline picture without end": _pdf(b"BI /W 9 ID " + b"x" * 500_000),
    "characters without number": _pdf(
        b"BT /F 9 Tf <00010002> Tj ET",
        font=b"<< /Type /Font /Subtype /Type0 /ToUnicode 7 0 R >>",
    ),
    "three million characters": _pdf(b"BT /F 9 Tf " + b"(" + b"word " * 600_000 + b") Tj ET"),
}
"""Documents of which most cannot be read; the others yield a few words at most."""
