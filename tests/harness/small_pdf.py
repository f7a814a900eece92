"""A PDF file of a few pages, made by hand."""

from __future__ import annotations

import zlib

_PAGE = "<< /Type /Page /Parent 2 0 R /Contents {} 0 R /Resources << /Font << /F 3 0 R >> >> >>"


def write_small_pdf(*texts: str, stream: bytes | None = None, kids: str = "") -> bytes:
    """Return a file with a page for each text.

    A compressed `stream` replaces what is drawn, and `kids` the references to the pages.
    """
    first = 4 + len(texts)
    kids = kids or " ".join(f"{first + n} 0 R" for n in range(len(texts)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(texts)} /Kids [{kids}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for text in texts:
        drawn = stream or zlib.compress(f"BT /F 12 Tf 9 9 Td ({text}) Tj ET".encode())
        head = f"<< /Length {len(drawn)} /Filter /FlateDecode >>\nstream\n"
        objects.append(head.encode() + drawn + b"\nendstream")
    objects += [_PAGE.format(4 + n).encode() for n in range(len(texts))]
    return write_objects(objects)


def write_objects(objects: list[bytes], *, more: str = "") -> bytes:
    """Return a file of objects, numbered from 1, of which the first is its catalog.

    `more` goes into the trailer.
    """
    out = b"%PDF-1.4\n"
    rows = "0000000000 65535 f \n"
    for number, body in enumerate(objects, 1):
        rows += f"{len(out):010} 00000 n \n"
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    size = len(objects) + 1
    trailer = f"trailer << /Size {size} /Root 1 0 R {more} >>\nstartxref\n{len(out)}\n%%EOF"
    return out + f"xref\n0 {size}\n{rows}{trailer}".encode()
