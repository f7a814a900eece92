"""`PageFile`: rows of every length, records made by hand, and pages that are none."""

from __future__ import annotations

import random
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from ingle.tui.history.database.page_rows import PageFile, Value

SIZE = 4096
TABLE, INDEX, INTERIOR = 13, 10, 2


def varint(value: int) -> bytes:
    """The value as SQLite writes it, in at most eight bytes."""
    parts = [value & 0x7F]
    while value := value >> 7:
        parts.append(value & 0x7F | 0x80)
    return bytes(reversed(parts))


def record(*serials: int, content: bytes = b"", header: int | None = None) -> bytes:
    types = b"".join(map(varint, serials))
    return varint(len(types) + 1 if header is None else header) + types + content


def page(kind: int, *cells: bytes, start: int = 0, count: int | None = None) -> bytes:
    """A page with these cells; those of tables have the row numbers 1, 2 and so on."""
    head = start + (12 if kind == INTERIOR else 8)
    content, pointers, at = bytearray(SIZE), b"", SIZE
    for number, cell in enumerate(cells, 1):
        left = bytes(4) if kind == INTERIOR else b""
        row = varint(number) if kind == TABLE else b""
        whole = left + varint(len(cell)) + row + cell
        at -= len(whole)
        content[at : at + len(whole)] = whole
        pointers += at.to_bytes(2)
    content[start] = kind
    content[start + 3 : start + 5] = (len(cells) if count is None else count).to_bytes(2)
    content[head : head + len(pointers)] = pointers
    return bytes(content)


def rows_of(path: Path, *pages: bytes, first: bytes = bytes(SIZE)) -> list[tuple[Value, ...]]:
    path.write_bytes(first + b"".join(pages))
    return list(PageFile(path).rows())


@pytest.mark.parametrize(("size", "longest"), [(512, 1700), (1024, 1300)])
def test_rows_of_every_length_are_whole(tmp_path: Path, size: int, longest: int) -> None:
    """Those that just fit into a page, or into one, two or three overflow pages, among them."""
    path = tmp_path / "any.db"
    chance = random.Random(size)
    texts = [chance.randbytes(length).hex()[:length] for length in range(longest)]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {size}")
        connection.execute("CREATE TABLE numbered(row INTEGER PRIMARY KEY, a)")
        connection.execute("CREATE TABLE keyed(k INTEGER PRIMARY KEY, a) WITHOUT ROWID")
        connection.execute("BEGIN")
        for table, first in (("numbered", 1), ("keyed", 10**6)):
            rows = enumerate(texts, first)
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
        connection.execute("COMMIT")
    found = {row for row in PageFile(path).rows() if row[0] != "table"}
    assert found == {*enumerate(texts, 1), *enumerate(texts, 10**6)}


def test_values_of_all_serial_types(tmp_path: Path) -> None:
    numbers = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
    for serial, size in numbers.items():
        for value in (-1, 1 << 8 * size - 2, -(1 << 8 * size - 1)):
            cell = record(serial, content=value.to_bytes(size, signed=True))
            assert rows_of(tmp_path / "db", page(INDEX, cell)) == [(value,)]
    cell = record(0, 8, 9, 7, 13, 12, 15, 14, content=struct.pack(">d", 1.5) + b"t\xff")
    expected = (None, 0, 1, 1.5, "", b"", "t", b"\xff")
    for kind in (INDEX, INTERIOR):
        assert rows_of(tmp_path / "db", page(kind, cell)) == [expected]
    assert rows_of(tmp_path / "db", page(TABLE, cell, cell)) == [
        (1, *expected[1:]),
        (2, *expected[1:]),
    ]
    assert rows_of(tmp_path / "db", page(TABLE, record(1, content=b"\x07"))) == [(7,)]
    assert rows_of(tmp_path / "db", page(INDEX, record(15, content=b"\xff"))) == [("\ufffd",)]


@pytest.mark.parametrize(
    "damaged",
    [
        record(10),
        record(11),
        record(2, content=b"x"),
        record(17, content=b"x"),
        record(9, header=0),
        record(9, header=3),
        record(9, header=200),
        b"\xff" * 9,
        b"",
    ],
    ids=str,
)
def test_damaged_record_hides_no_other(tmp_path: Path, damaged: bytes) -> None:
    good = record(1, content=b"\x05")
    for kind in (INDEX, TABLE):
        assert rows_of(tmp_path / "db", page(kind, good, damaged, good)) == [(5,), (5,)]


def test_pages_of_other_kinds_and_wrong_counts(tmp_path: Path) -> None:
    good = record(1, content=b"\x05")
    path = tmp_path / "db"
    for kind in (0, 1, 5, 3, 12, 14):
        assert rows_of(path, page(kind, good)) == []
    assert rows_of(path, page(INDEX, good), b"rest" * 9) == [(5,)]
    assert rows_of(path, page(INDEX, good, count=65535))[0] == (5,)
    assert rows_of(path, page(INDEX, good, good, count=1)) == [(5,)]
    head = b"SQLite format 3\0" + SIZE.to_bytes(2) + bytes(82)
    first = page(INDEX, good, start=100)
    assert rows_of(path, first=head + first[100:]) == [(5,)]
    assert rows_of(path, first=b"SQLite format 3\0" + (1).to_bytes(2) + bytes(1)) == []


def test_overflow_pages_that_miss_or_lead_back(tmp_path: Path) -> None:
    path = tmp_path / "any.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute("CREATE TABLE t(a)")
        connection.execute("INSERT INTO t VALUES (?), (?)", ("x" * 2000, "y" * 3000))
    whole = path.read_bytes()
    assert sorted(len(str(row[0])) for row in PageFile(path).rows() if row[0] != "table") == [
        2000,
        3000,
    ]
    for number in range(2, len(whole) // 512):
        content = bytearray(whole)
        for following in (number + 1, 0, 10**6):
            content[512 * number : 512 * number + 4] = following.to_bytes(4)
            path.write_bytes(content)
            found = [str(row[0]) for row in PageFile(path).rows() if row[0] != "table"]
            assert {len(text) for text in found} <= {2000, 3000}
    path.write_bytes(whole[: 512 * 4])
    assert not [row for row in PageFile(path).rows() if row[0] != "table"]
