"""The process in which pictures and documents are decoded, run as `python -P -m`.

Native code and large parsers read untrusted files there, without network, files of the user and
much memory.
"""

from __future__ import annotations

import os
import sys
import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from ingle.backends.base.child_process import die_with_parent
from ingle.backends.base.framing import frame, read_body
from ingle.backends.confinement.access_policy import AccessPolicy
from ingle.backends.confinement.confine import confine
from ingle.backends.confinement.resource_limits import lower_limit

from .picture_protocol import DecodedPicture, DecodeTask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

    from PIL import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
"""Brands of the container; what Pillow would need to decode it comes with code under the GPL."""
_CONVERT = "`heif-convert a.heic a.jpg`, on a Mac `sips -s format jpeg a.heic --out a.jpg`"
MOST_PIXELS = 64_000_000
"""Of a file; decoded, that takes 256 MB."""
KEPT_PIXELS = 4_000_000
"""A larger picture is scaled down to this: no model here sees more."""
MOST_PAGES = 1000
MOST_CHARACTERS = 2_000_000
_MOST_XML = 32 * 2**20
_WORD_TEXT = "word/document.xml"
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LONGEST_SIDE = 8192
_ADDRESS_SPACE = 2 * 2**30
_WHITE = (255, 255, 255, 255)


def read_document(data: bytes) -> DecodedPicture:
    """Read the text of a PDF; never raises."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(BytesIO(data))
        if len(reader.pages) > MOST_PAGES:
            return DecodedPicture(error=f"it has {len(reader.pages)} pages, more than {MOST_PAGES}")
        pages: list[str] = []
        for number, page in enumerate(reader.pages, 1):
            pages.append(f"[page {number}]\n{page.extract_text().strip()}")
            if sum(map(len, pages)) > MOST_CHARACTERS:
                return DecodedPicture(error=f"its text is longer than {MOST_CHARACTERS:,}")
    except PyPdfError:
        return DecodedPicture(error="its file is damaged, or locked")
    except MemoryError:
        return DecodedPicture(error="it takes too much memory")
    except Exception:  # the parser meets whatever the file says
        return DecodedPicture(error="its file is damaged")
    if not any(page.partition("\n")[2] for page in pages):
        return DecodedPicture(error="it has no text: its pages are pictures")
    return DecodedPicture(text="\n\n".join(pages))


def read_word_document(data: bytes) -> DecodedPicture:
    """Read the paragraphs of a .docx file, one a line; never raises."""
    import zipfile
    from xml.etree import ElementTree  # expat bounds what entities expand to

    try:
        with zipfile.ZipFile(BytesIO(data)) as archive, archive.open(_WORD_TEXT) as file:
            source = file.read(_MOST_XML + 1)
        if len(source) > _MOST_XML:
            return DecodedPicture(error=f"its text is longer than {MOST_CHARACTERS:,}")
        root = ElementTree.fromstring(source)  # noqa: S314
        paragraphs = ["".join(_runs(node)) for node in root.iter(f"{_WORD}p")]
    except MemoryError:
        return DecodedPicture(error="it takes too much memory")
    except Exception:  # the parsers meet whatever the file says
        return DecodedPicture(error="its file is damaged, or no Word document")
    text = "\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    if len(text) > MOST_CHARACTERS:
        return DecodedPicture(error=f"its text is longer than {MOST_CHARACTERS:,}")
    return DecodedPicture(text=text)


def _runs(paragraph: Element) -> Iterator[str]:
    for node in paragraph.iter():
        if node.tag == f"{_WORD}t":
            yield node.text or ""
        elif node.tag in (f"{_WORD}tab", f"{_WORD}br"):
            yield " "


def decode_picture(data: bytes, within: tuple[int, int] | None = None) -> DecodedPicture:
    """Decode a file's first frame, scaled down to fit `within`; never raises."""
    from PIL import Image, UnidentifiedImageError

    # The size is checked here, by the header.
    Image.MAX_IMAGE_PIXELS = None
    warnings.simplefilter("ignore")
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as opened:
            width, height = opened.size
            if width * height > MOST_PIXELS:
                return DecodedPicture(
                    error=f"it has {width} × {height} pixels, more than {MOST_PIXELS:,}"
                )
            picture = _scaled(_upright(opened))
            if within is not None:
                picture.thumbnail(within)
            return DecodedPicture(*picture.size, picture.tobytes())
    except UnidentifiedImageError:
        if data[4:8] == b"ftyp" and data[8:12] in _HEIC:
            return DecodedPicture(error=f"it is a HEIC file, which has to be converted: {_CONVERT}")
        return DecodedPicture(error="it is no PNG, JPEG, WebP or GIF file")
    except MemoryError:
        return DecodedPicture(error="it takes too much memory")
    except Exception:  # every decoder has its own
        return DecodedPicture(error="its file is damaged")


def _upright(picture: Image.Image) -> Image.Image:
    """Return the picture as a person sees it: turned, without transparency, in 8 bits a colour."""
    from PIL import Image, ImageOps

    shrunk = max(picture.size) // _LONGEST_SIDE
    if shrunk > 1:
        picture.draft("RGB", (picture.width // shrunk, picture.height // shrunk))
    picture.load()
    picture = ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I"):  # 16 bits of grey
        import numpy as np

        picture = Image.fromarray((np.asarray(picture) >> 8).clip(0, 255).astype(np.uint8))
    if picture.has_transparency_data:
        clear = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", clear.size, _WHITE), clear)
    return picture.convert("RGB")


def _scaled(picture: Image.Image) -> Image.Image:
    from PIL import Image

    width, height = picture.size
    scale = min(1.0, (KEPT_PIXELS / (width * height)) ** 0.5, _LONGEST_SIDE / max(width, height))
    if scale == 1.0:
        return picture
    size = max(1, int(width * scale)), max(1, int(height * scale))
    return picture.resize(size, Image.Resampling.LANCZOS)


def _decoded(task: DecodeTask) -> DecodedPicture:
    if task.data.startswith(b"%PDF-"):
        return read_document(task.data)
    if task.data.startswith(b"PK\x03\x04"):
        return read_word_document(task.data)
    return decode_picture(task.data, task.within)


def main() -> None:
    """Answer files on stdin until it closes."""
    die_with_parent(int(sys.argv[1]))
    sink: Any = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    confine(AccessPolicy(reads=()))
    if sys.platform == "linux":
        import resource

        lower_limit(resource.RLIMIT_AS, _ADDRESS_SPACE)
    decoder = msgspec.msgpack.Decoder(DecodeTask)
    while True:
        try:
            data = read_body(sys.stdin.buffer)
        except EOFError:
            return
        sink.write(frame(msgspec.msgpack.encode(_decoded(decoder.decode(data)))))
        sink.flush()


if __name__ == "__main__":
    main()
