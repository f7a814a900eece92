"""A file at a URL, of which only the ranges that are read are fetched."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import httpx

from ..errors import SourceUnavailable

_FIRST = 1 << 20
_LARGEST = 1 << 23
_MOST = 1 << 27
"""No header takes more bytes: those of the largest vocabularies have about 20 million."""
_PATIENCE = 300.0
"""Seconds in which such a header comes even over half a megabit a second."""
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")

OpenRange = Callable[[int, int], AbstractContextManager[httpx.Response]]
"""Requests the bytes from one position up to, but not including, another."""
Refused = Callable[[httpx.Response], SourceUnavailable]
"""The error for a response without the bytes."""


class RangedFile:
    """A binary file for reading forwards; what is fetched ahead doubles with each request."""

    def __init__(
        self, label: str, open_range: OpenRange, refused: Refused, *, patience: float = _PATIENCE
    ) -> None:
        """Ask for the beginning, and with that for the size; all may take `patience` seconds."""
        self._label = label
        self._patience = patience
        self._deadline = time.monotonic() + patience
        self._open = open_range
        self._refused = refused
        self._ahead = _FIRST
        self.fetched = 0
        """Bytes that came over the network."""
        self._start = self._at = 0
        self._buffer = b""
        self.size = -1
        self._fill(0)

    def read(self, count: int) -> bytes:
        """The next bytes, fewer only at the end."""
        count = min(count, self.size - self._at)
        parts: list[bytes] = []
        while count > 0:
            offset = self._at - self._start
            if not 0 <= offset < len(self._buffer):
                self._fill(self._at)
                continue
            part = self._buffer[offset : offset + count]
            parts.append(part)
            self._at += len(part)
            count -= len(part)
        return b"".join(parts)

    def seek(self, position: int) -> None:
        """Continue reading there."""
        self._at = position

    def _fill(self, start: int) -> None:
        if self.fetched > _MOST:
            raise SourceUnavailable(f"{self._label} has a header of more than {_MOST >> 20} MiB.")
        with self._open(start, start + self._ahead) as response:
            total = self._check(response, start)
            if self.size not in (-1, total):
                raise SourceUnavailable(f"{self._label} changed while it was read.")
            self.size = total
            self._buffer = self._body(response, min(self._ahead, total - start))
            self._start = start
        self._ahead = min(2 * self._ahead, _LARGEST)

    def _body(self, response: httpx.Response, length: int) -> bytes:
        """All of what was asked for, of a server that may send without end, or hardly at all."""
        body = bytearray()
        for data in response.iter_raw():
            body += data
            self.fetched += len(data)
            if len(body) > length:
                raise SourceUnavailable(f"{self._label} sends more than was asked for.")
            if time.monotonic() > self._deadline:
                raise SourceUnavailable(
                    f"{self._label} sends so slowly that {self.fetched >> 10} KiB took "
                    f"{self._patience:.0f} seconds.",
                    hint="Try again later.",
                )
        if len(body) < length or not body:
            raise SourceUnavailable(f"{self._label} ends before its own end.")
        return bytes(body)

    def _check(self, response: httpx.Response, start: int) -> int:
        """The size of the whole file; the body of anything else is not read."""
        status = response.status_code
        if status == 200:
            raise SourceUnavailable(
                f"{self._label} sends whole files only, so nothing can be told of this one "
                "before it is here.",
                hint="Pull it, or look up its size and shape where it comes from.",
            )
        if status != 206:
            raise self._refused(response)
        match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != start or int(match[2]) >= start + self._ahead:
            raise SourceUnavailable(f"{self._label} answers with another part than was asked for.")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise SourceUnavailable(f"{self._label} sends the file in an encoding not asked for.")
        return int(match[3])
