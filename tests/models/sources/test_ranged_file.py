"""Tests of reading only parts of a file that is far away, from servers that do not mean it well."""

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


def far(body: Iterator[bytes], total: int) -> AbstractContextManager[RangedFile]:
    """A file of which a server promises the part that was asked for, and sends `body`."""

    def answer(request: httpx.Request) -> httpx.Response:
        start, end = (int(part) for part in request.headers["range"][6:].split("-"))
        last = min(end, total - 1)
        headers = {"Content-Range": f"bytes {start}-{last}/{total}"}
        return httpx.Response(206, headers=headers, content=body)

    transport = httpx.MockTransport(answer)
    return HTTPSource("https://93.184.215.14/f", transport=transport).ranges()


def test_a_body_without_end_is_not_read_to_it() -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 64 * MIB:  # so that a failure does not take the machine's memory
            sent += MIB // 4
            yield bytes(MIB // 4)

    with pytest.raises(SourceUnavailable, match="sends more than was asked for"):
        far(endless(), 100 * MIB).__enter__()
    assert sent <= 2 * MIB


def test_a_part_that_is_shorter_than_promised_is_none() -> None:
    with pytest.raises(SourceUnavailable, match="ends before its own end"):
        far(iter([b"GGUF"]), len(CONTENT)).__enter__()


def test_a_server_that_hardly_sends_anything_is_given_up() -> None:
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
