"""Reads rows from the pages of an SQLite file, without its schema and its upper pages.

The format is that of https://sqlite.org/fileformat2.html. Freed pages hold no old rows, since the
chats are written with `secure_delete`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

Value = int | float | str | bytes | None

_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 13, 10, 2
_INTEGER_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
MAX_OVERFLOW = 100_000
"""Pages of one value; more are a cycle."""


class DamagedPage(Exception):
    """The bytes are no row."""


class PageFile:
    """The pages of a database file that no program writes, after a checkpoint of its log."""

    def __init__(self, path: Path) -> None:
        self._content = path.read_bytes()
        self._size = self._usable = 4096  # SQLite's default, if the header is damaged
        if self._content.startswith(b"SQLite format 3\0") and len(self._content) > 20:
            size = int.from_bytes(self._content[16:18])
            self._size = 65536 if size == 1 else max(size, 512)
            self._usable = self._size - self._content[20]

    def rows(self) -> Iterator[tuple[Value, ...]]:
        """Yield each row in its own page; the row number of a table stands in place of a leading
        NULL.
        """
        for number in range(1, len(self._content) // self._size + 1):
            page = self._page(number)
            start = 100 if number == 1 else 0
            kind = page[start]
            if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
                continue
            count = int.from_bytes(page[start + 3 : start + 5])
            pointers = start + (12 if kind == _INDEX_INTERIOR else 8)
            for at in range(pointers, min(pointers + 2 * count, self._size - 1), 2):
                try:
                    yield self._row(page, int.from_bytes(page[at : at + 2]), kind)
                except (DamagedPage, IndexError, UnicodeError, struct.error):
                    continue

    def _page(self, number: int) -> bytes:
        return self._content[(number - 1) * self._size : number * self._size]

    def _row(self, page: bytes, at: int, kind: int) -> tuple[Value, ...]:
        if kind == _INDEX_INTERIOR:
            at += 4
        length, at = _varint(page, at)
        row = None
        if kind == _TABLE_LEAF:
            row, at = _varint(page, at)
        values = _values(self._payload(page, at, length, kind))
        return (row, *values[1:]) if row is not None and values[0] is None else values

    def _payload(self, page: bytes, at: int, length: int, kind: int) -> bytes:
        """Return the bytes of a row, with those in overflow pages."""
        if length > len(self._content):
            raise DamagedPage
        usable = self._usable
        most = usable - 35 if kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
        if length <= most:
            return page[at : at + length]
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = local if local <= most else least
        parts = [page[at : at + local]]
        following = int.from_bytes(page[at + local : at + local + 4])
        missing = length - local
        for _ in range(MAX_OVERFLOW):
            if missing <= 0:
                return b"".join(parts)
            overflow = self._page(following) if following else b""
            if not overflow:
                break
            parts.append(overflow[4 : 4 + min(missing, usable - 4)])
            missing -= usable - 4
            following = int.from_bytes(overflow[:4])
        raise DamagedPage


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length integer at a position, and the position after it."""
    value = 0
    for count in range(9):
        byte = data[at + count]
        if count == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            return value, at + count + 1
    raise DamagedPage


def _values(record: bytes) -> tuple[Value, ...]:
    end, at = _varint(record, 0)
    if not at <= end <= len(record):
        raise DamagedPage
    values: list[Value] = []
    place = end
    while at < end:
        serial, at = _varint(record, at)
        value, size = _value(record, place, serial)
        place += size
        if place > len(record):
            raise DamagedPage
        values.append(value)
    return tuple(values)


def _value(record: bytes, at: int, serial: int) -> tuple[Value, int]:
    """Return the value of a serial type at a position, and its size in bytes."""
    if serial in _INTEGER_SIZES:
        size = _INTEGER_SIZES[serial]
        return int.from_bytes(record[at : at + size], signed=True), size
    if serial == 7:
        return struct.unpack_from(">d", record, at)[0], 8
    if serial in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[serial], 0
    if serial < 12:
        raise DamagedPage
    size = (serial - 12) // 2
    content = record[at : at + size]
    return (content.decode("utf-8", "replace") if serial % 2 else content), size
