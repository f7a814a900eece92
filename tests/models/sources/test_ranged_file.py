"""`RangedFile`: reading parts of a remote file from hostile servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import httpx
import pytest

from ingle.models.errors import SourceUnavailable
from ingle.models.sources.http_source import HTTPSource
from ingle.models.sources.ranged_file import RangedFile

MIB = 1 << 20
CONTENT = bytes(range(256)) * 8192


def remote_file(body: Iterator[bytes], total: int) -> AbstractContextManager[RangedFile]:
    """Return a file whose server promises the requested range and sends `body`."""

    def answer(request: httpx.Request) -> httpx.Response:
        start, end = (int(part) for part in request.headers["range"][6:].split("-"))
        last = min(end, total - 1)
        headers = {"Content-Range": f"bytes {start}-{last}/{total}"}
        return httpx.Response(206, headers=headers, content=body)

    transport = httpx.MockTransport(answer)
    return HTTPSource("https://93.184.215.14/f", transport=transport).ranges()


def test_endless_body_is_not_read() -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 64 * MIB:  # so that a failure does not use up the machine's memory
            sent += MIB // 4
            yield bytes(MIB // 4)

    with pytest.raises(SourceUnavailable, match="sends more than was asked for"):
        remote_file(endless(), 100 * MIB).__enter__()
    assert sent <= 2 * MIB


def test_too_short_range_is_rejected() -> None:
    with pytest.raises(SourceUnavailable, match="ends before its own end"):
        remote_file(iter([b"GGUF"]), len(CONTENT)).__enter__()


def test_very_slow_server_is_an_error() -> None:
    def dripping() -> Iterator[bytes]:
        for _ in range(MIB):
            yield b"."

    def open_range(start: int, end: int) -> AbstractContextManager[httpx.Response]:
        headers = {"Content-Range": f"bytes {start}-{end - 1}/{8 * MIB}"}
        transport = httpx.MockTransport(
            lambda request: httpx.Response(206, headers=headers, content=dripping())
        )
        return httpx.Client(transport=transport).stream("GET", "https://93.184.215.14/f")

    def refused(response: httpx.Response) -> SourceUnavailable:
        raise AssertionError(response)

    with pytest.raises(SourceUnavailable, match="so slowly"):
        RangedFile("far.example", open_range, refused, patience=0.0)
