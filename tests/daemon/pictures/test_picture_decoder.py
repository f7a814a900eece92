"""`PictureDecoder`: pictures of all kinds become pixels, hostile files become typed errors."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections.abc import AsyncIterator
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
from tests.harness.hostile_files import (
    HOSTILE_PICTURES,
    RED,
    file_of,
    noise,
)
from tests.harness.small_pdf import write_small_pdf

WHITE = (255, 255, 255)


@pytest.fixture
async def decoder() -> AsyncIterator[PictureDecoder]:
    decoder = PictureDecoder()
    yield decoder
    decoder.close()


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


async def test_hostile_files_get_typed_errors(decoder: PictureDecoder) -> None:
    for name, data in HOSTILE_PICTURES.items():
        with pytest.raises(RequestRejected) as caught:
            await decode(decoder, data)
        assert caught.value.code == "invalid_picture", name
        assert caught.value.param == "messages", name
    (picture,) = await decode(decoder, file_of(Image.new("RGB", (6, 4), RED)))
    assert first_pixel(picture) == RED


async def test_photo_of_a_phone_names_what_converts_it(decoder: PictureDecoder) -> None:
    head = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"
    with pytest.raises(RequestRejected, match=r"HEIC file.*`heif-convert") as caught:
        await decode(decoder, head + bytes(999))
    assert caught.value.code == "invalid_picture"


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


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be stopped there")
async def test_decoding_is_bounded_in_time(
    decoder: PictureDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await decode(decoder, noise("PNG"))
    process = decoder._process  # pyright: ignore[reportPrivateUsage]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)  # else it might answer in no time
    monkeypatch.setattr(process, "_seconds", 0.05)
    with pytest.raises(RequestRejected, match="takes more than"):
        await decode(decoder, noise("GIF"))


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


async def test_thumbnails_are_small_and_in_shape(run_daemon: Any) -> None:
    wide = file_of(Image.new("RGB", (600, 300), RED), "JPEG")
    uri = f"data:image/jpeg;base64,{base64.b64encode(wide).decode()}"
    async with run_daemon() as daemon:
        body = {"picture": uri, "width": 32, "height": 20}
        small = (await daemon.tcp.post("/ingle/v1/thumbnail", json=body)).json()
        assert (small["width"], small["height"]) == (32, 16)
        pixels = base64.b64decode(small["rgb"])
        assert len(pixels) == 3 * 32 * 16
        assert tuple(pixels[:3]) == pytest.approx(RED, abs=4)
        torn = {**body, "picture": uri[:83]}
        refused = (await daemon.tcp.post("/ingle/v1/thumbnail", json=torn)).json()
        assert refused["error"]["code"] == "invalid_picture"
