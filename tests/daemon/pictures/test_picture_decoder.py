"""`PictureDecoder`: pictures of all kinds become pixels, hostile files become typed errors."""

from __future__ import annotations

import asyncio
import struct
import sys
import zlib
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ingle.backends.base.conversation import ChatMessage, PDFFile, Picture
from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.pictures.picture_decoder import MOST_FILES, PictureDecoder
from ingle.daemon.pictures.picture_process import KEPT_PIXELS
from tests.harness.small_pdf import write_small_pdf

RED, WHITE = (255, 0, 0), (255, 255, 255)


@pytest.fixture
async def decoder() -> AsyncIterator[PictureDecoder]:
    decoder = PictureDecoder()
    yield decoder
    decoder.close()


def file_of(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    out = BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, data: bytes, *, between: bytes = b"", depth: int = 8) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + between + chunk(b"IDAT", data) + chunk(b"IEND", b"")


async def decode(decoder: PictureDecoder, *files: bytes) -> list[Picture]:
    pictures = [Picture(at=1, data=data) for data in files]
    request = GenerateRequest(id="a", messages=[ChatMessage("user", "see", pictures=pictures)])
    decoded = await decoder.decoded(request)
    assert decoded.messages is not None
    return decoded.messages[0].pictures


def first_pixel(picture: Picture) -> tuple[int, ...]:
    return tuple(picture.rgb[:3])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (file_of(Image.new("RGB", (6, 4), RED)), RED),
        (file_of(Image.new("RGB", (6, 4), RED), "WEBP", lossless=True), RED),
        (file_of(Image.new("P", (6, 4), 0), "GIF"), (0, 0, 0)),
        (file_of(Image.new("L", (6, 4), 7)), (7, 7, 7)),
        (file_of(Image.new("1", (6, 4), 1)), WHITE),
        (file_of(Image.new("LA", (6, 4), (0, 0))), WHITE),
        (file_of(Image.new("RGBA", (6, 4), (0, 0, 0, 0))), WHITE),
        (file_of(Image.new("I;16", (6, 4), 0x8000)), (128, 128, 128)),
        (file_of(Image.new("CMYK", (6, 4), (0, 0, 0, 255)), "JPEG"), (0, 0, 0)),
    ],
)
async def test_all_kinds_become_rgb(
    decoder: PictureDecoder, data: bytes, expected: tuple[int, ...]
) -> None:
    (picture,) = await decode(decoder, data)
    assert (picture.width, picture.height, len(picture.rgb)) == (6, 4, 72)
    assert first_pixel(picture) == pytest.approx(expected, abs=4)
    assert (picture.at, picture.data) == (1, b"")


async def test_animation_is_its_first_frame(decoder: PictureDecoder) -> None:
    frames = [Image.new("RGB", (6, 4), colour) for colour in (RED, (0, 0, 255))]
    for kind in ("GIF", "WEBP", "PNG"):
        data = file_of(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)
        (picture,) = await decode(decoder, data)
        assert first_pixel(picture) == pytest.approx(RED, abs=4), kind


async def test_photo_is_turned_as_its_camera_was(decoder: PictureDecoder) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    (picture,) = await decode(decoder, file_of(Image.new("RGB", (6, 4)), "JPEG", exif=exif))
    assert (picture.width, picture.height) == (4, 6)


async def test_large_pictures_are_scaled_down(decoder: PictureDecoder) -> None:
    wide, flat = Image.new("RGB", (6000, 4000), RED), Image.new("L", (30_000, 2), 9)
    large, thin = await decode(decoder, file_of(wide, "JPEG"), file_of(flat))
    assert large.width * large.height <= KEPT_PIXELS
    assert large.width / large.height == pytest.approx(1.5, rel=0.01)
    assert first_pixel(large) == pytest.approx(RED, abs=4)
    assert (thin.width, thin.height) == (8192, 1)


def noise(kind: str) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return file_of(Image.fromarray(pixels), kind)


BOMB = zlib.compress(bytes(2**26), 9)
HOSTILE = {
    "nothing": b"",
    "text": b"hello",
    "script": b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>",
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "tiff": file_of(Image.new("RGB", (6, 4)), "TIFF"),
    "bmp": file_of(Image.new("RGB", (6, 4)), "BMP"),
    "ico": file_of(Image.new("RGB", (16, 16)), "ICO"),
    "50,000 pixels a side": png(50_000, 50_000, zlib.compress(b"\0" * 100)),
    "most pixels a header can say": png(2**31 - 1, 2**31 - 1, b""),
    "no width": png(0, 4, zlib.compress(b"\0")),
    "text bomb": png(4, 4, b"", between=chunk(b"zTXt", b"a\0\0" + BOMB)),
    "profile bomb": png(4, 4, b"", between=chunk(b"iCCP", b"a\0\0" + BOMB)),
    "no pixels": png(64, 64, b""),
    "wrong pixels": png(64, 64, b"x" * 500),
    "wrong depth": png(64, 64, zlib.compress(bytes(5000)), depth=7),
    "gif of another size": b"GIF89a\xff\xff\xff\xff\x00\x00\x00\x2c" + bytes(4) + b"\xff" * 60,
    "riff": b"RIFF\xff\xff\xff\x7fWEBPVP8 " + b"\xff" * 60,
    "jpeg head": b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + b"\xff" * 90,
    **{f"half a {kind}": noise(kind)[: len(noise(kind)) // 2] for kind in ("PNG", "WEBP")},
    **{f"head of a {kind}": noise(kind)[:30] for kind in ("PNG", "JPEG", "WEBP", "GIF")},
}


async def test_hostile_files_get_typed_errors(decoder: PictureDecoder) -> None:
    for name, data in HOSTILE.items():
        with pytest.raises(RequestRejected) as caught:
            await decode(decoder, data)
        assert caught.value.code == "invalid_picture", name
        assert caught.value.param == "messages", name
    (picture,) = await decode(decoder, file_of(Image.new("RGB", (6, 4), RED)))
    assert first_pixel(picture) == RED


async def test_bytes_of_other_files_never_end_the_daemon(decoder: PictureDecoder) -> None:
    random = np.random.default_rng(5)
    for kind in ("PNG", "JPEG", "WEBP", "GIF"):
        data = bytearray(noise(kind))
        for _ in range(12):
            at = int(random.integers(12, len(data)))
            data[at] ^= int(random.integers(1, 256))
            try:
                (picture,) = await decode(decoder, bytes(data))
            except RequestRejected as error:
                assert error.code == "invalid_picture"  # noqa: PT017 - either is right
            else:
                assert len(picture.rgb) == picture.width * picture.height * 3


async def test_decoding_is_bounded_in_time() -> None:
    decoder = PictureDecoder(seconds=0.0)
    with pytest.raises(RequestRejected, match="takes more than"):
        await decode(decoder, noise("PNG"))
    decoder.close()


async def test_same_file_is_decoded_once(decoder: PictureDecoder) -> None:
    first, again = await decode(decoder, noise("PNG"), noise("PNG"))
    assert again.rgb is first.rgb


async def test_too_many_and_too_large_files(decoder: PictureDecoder) -> None:
    with pytest.raises(RequestRejected, match="more than"):
        await decode(decoder, *[noise("GIF")] * (MOST_FILES + 1))
    with pytest.raises(RequestRejected, match="MiB"):
        await decode(decoder, bytes(2**24 + 1))
    with pytest.raises(RequestRejected, match="pixels together"):
        await decode(decoder, *[file_of(Image.new("L", (2000, 2000)))] * 17)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no filter of calls")
async def test_process_is_confined(decoder: PictureDecoder) -> None:
    await decode(decoder, noise("PNG"))
    pid = decoder._process.pid  # pyright: ignore[reportPrivateUsage]
    status = await asyncio.to_thread(Path(f"/proc/{pid}/status").read_text)
    assert "Seccomp:\t2" in status


async def read(decoder: PictureDecoder, data: bytes) -> ChatMessage:
    picture = Picture(at=6, data=file_of(Image.new("RGB", (6, 4), RED)))
    message = ChatMessage(
        "user", "a\n\nb\n\nc", pictures=[picture], documents=[PDFFile(2, "x.pdf", data)]
    )
    decoded = await decoder.decoded(GenerateRequest(id="a", messages=[message]))
    assert decoded.messages is not None
    return decoded.messages[0]


async def test_document_becomes_text_in_its_place(decoder: PictureDecoder) -> None:
    message = await read(decoder, write_small_pdf("first words", "more of them"))
    text = '<file name="x.pdf">\n[page 1]\nfirst words\n\n[page 2]\nmore of them\n</file>'
    assert message.content == f"a\n{text}\nb\n\nc"
    assert message.documents == []
    assert message.content[message.pictures[0].at :] == "c"


HOSTILE_DOCUMENTS = {
    "nothing": b"%PDF-1.4",
    "no text": write_small_pdf("", stream=zlib.compress(b"0 0 9 9 re f")),
    "half": write_small_pdf("words" * 100)[:300],
    "pages in a circle": write_small_pdf("words", kids="2 0 R"),
    "bomb": write_small_pdf("words", stream=BOMB),
    "noise": b"%PDF-1.7\n" + bytes(range(256)) * 40,
    "more pages than there are": write_small_pdf("words").replace(
        b"/Count 1", b"/Count 9" + b"9" * 9
    ),
    "deep": b"%PDF-1.4\n1 0 obj\n" + b"[" * 100_000 + b"\nendobj\ntrailer << /Root 1 0 R >>",
}


async def test_hostile_documents_get_typed_errors(decoder: PictureDecoder) -> None:
    for name, data in HOSTILE_DOCUMENTS.items():
        try:
            message = await read(decoder, data)
        except RequestRejected as error:
            assert error.code == "invalid_document", name  # noqa: PT017 - some can be read
        else:
            assert "words" in message.content, name
    assert "fine" in (await read(decoder, write_small_pdf("fine"))).content
