"""Bounded reading of the primitive values of a GGUF header."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NoReturn, Protocol

from ..errors import InvalidModel

_CHUNK = 1 << 20
_MAX_KEY = 1 << 16
MAX_KEYS = 1 << 16
# Some files carry a whole tokenizer.json, about 20 MB, in one value; nothing here wants those.
_LONGEST_KEPT = 1 << 20
_MAX_KEPT = 1 << 26
# Ten times the largest vocabulary there is; skipping so many strings takes about two seconds.
_MAX_STRINGS = 1 << 22
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class ValueType(IntEnum):
    """The type tags of GGUF metadata values."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for booleans."""
        return self in SCALARS and SCALARS[self].format[1] in "BbHhIiQq"


SCALARS: dict[ValueType, struct.Struct] = {
    ValueType.UINT8: struct.Struct("<B"),
    ValueType.INT8: struct.Struct("<b"),
    ValueType.UINT16: struct.Struct("<H"),
    ValueType.INT16: struct.Struct("<h"),
    ValueType.UINT32: _U32,
    ValueType.INT32: struct.Struct("<i"),
    ValueType.FLOAT32: struct.Struct("<f"),
    ValueType.BOOL: struct.Struct("<?"),
    ValueType.UINT64: _U64,
    ValueType.INT64: struct.Struct("<q"),
    ValueType.FLOAT64: struct.Struct("<d"),
}


class HeaderFile(Protocol):
    """The source of a header: a local file, or one at a URL."""

    def read(self, count: int, /) -> bytes:
        """The next bytes, fewer only at the end."""
        ...

    def seek(self, position: int, /) -> object:
        """Continue reading there."""
        ...


class HeaderReader:
    """A cursor over the file that checks every length against the bytes left before it moves.

    Holds about 1 MiB of the file at a time.
    """

    def __init__(self, file: HeaderFile, path: Path, size: int) -> None:
        self._file = file
        self.path = path
        self._buffer = b""
        self._start = 0  # the position in the file at which the buffer begins
        self._at = 0  # the position of the cursor in the buffer
        self._strings = 0
        self._kept = 0
        self.size = size

    @property
    def position(self) -> int:
        """The cursor's place in the file."""
        return self._start + self._at

    @property
    def remaining(self) -> int:
        """Bytes between the cursor and the file's end."""
        return self.size - self.position

    def fail(self, reason: str) -> NoReturn:
        """Raise `InvalidModel` for this file; `reason` completes the sentence "FILE …"."""
        raise InvalidModel(f"{self.path} {reason}.", hint="Download it again: the file is damaged.")

    def u32(self) -> int:
        """The next 4 bytes as an unsigned integer."""
        return _U32.unpack(self.take(4))[0]

    def u64(self) -> int:
        """The next 8 bytes as an unsigned integer."""
        return _U64.unpack(self.take(8))[0]

    def scalar(self, kind: ValueType) -> int | float | bool:
        """One number or truth value."""
        layout = SCALARS[kind]
        raw = self.take(layout.size)
        if kind is ValueType.BOOL and raw[0] > 1:
            self.fail(f"holds {raw[0]} where a truth value belongs")
        return layout.unpack(raw)[0]

    def key(self, what: str) -> str:
        """A short string that must be UTF-8: a metadata key or a tensor name."""
        length = self.u64()
        if length > self.remaining:
            self.truncated()
        if not 0 < length < _MAX_KEY:
            self.fail(f"has a {what} of {length} bytes")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            self.fail(f"has a {what} that is not UTF-8")

    def text(self) -> str | None:
        """A string with invalid UTF-8 replaced, or None if it is longer than 1 MiB."""
        length = self.u64()
        if length > _LONGEST_KEPT:
            self._move_to(self.position + length)
            return None
        self._kept += length
        if self._kept > _MAX_KEPT:
            self.fail(f"has more than {_MAX_KEPT >> 20} MiB of text in its header")
        return self.take(length).decode("utf-8", "replace")

    def metadata(self) -> Iterator[tuple[str, ValueType]]:
        """Each metadata key with the type of its value, which the caller reads or skips.

        The cursor is at the beginning of a file that `read_header` accepts.
        """
        self.take(16)  # magic, version and number of tensors
        for _ in range(min(self.u64(), MAX_KEYS)):
            yield self.key("metadata key"), ValueType(self.u32())

    def values(self, kind: ValueType, count: int) -> tuple[int | float, ...]:
        """A short array of numbers; the caller bounds `count`."""
        self._kept += 32 * count
        if self._kept > _MAX_KEPT:
            self.fail("has unreasonably many values in its header")
        code = SCALARS[kind].format[1]
        return struct.unpack(f"<{count}{code}", self.take(count * SCALARS[kind].size))

    def skip_array(self, kind: ValueType, count: int) -> None:
        """Move past an array's elements without building them."""
        if kind is ValueType.STRING:
            self._skip_strings(count)
        else:
            self._move_to(self.position + count * SCALARS[kind].size)

    def skip_value(self, kind: ValueType) -> None:
        """Move past a metadata value."""
        if kind is ValueType.ARRAY:
            self.skip_array(ValueType(self.u32()), self.u64())
        elif kind is ValueType.STRING:
            self.text()
        else:
            self.scalar(kind)

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if count > self.remaining:
            self.truncated()
        if self._at + count > len(self._buffer):
            self._fill(count)
        raw = self._buffer[self._at : self._at + count]
        self._at += count
        return raw

    def truncated(self) -> NoReturn:
        """Raise `InvalidModel` because the header promises more than the file holds."""
        raise InvalidModel(
            f"{self.path} ends inside its header: it is truncated.", hint="Download it again."
        )

    def _skip_strings(self, count: int) -> None:
        self._strings += count
        if count * _U64.size > self.remaining:
            self.truncated()
        if self._strings > _MAX_STRINGS:
            self.fail(f"lists {self._strings} texts in its header")
        # Locals only: this loop runs once a token of the vocabulary, 262,144 times for some.
        unpack = _U64.unpack_from
        buffer, at, end = self._buffer, self._at, len(self._buffer)
        for _ in range(count):
            if at + 8 > end:
                self._move_to(self._start + at)
                if self.remaining < 8:
                    self.truncated()
                self._fill(8)
                buffer, at, end = self._buffer, self._at, len(self._buffer)
            at += 8 + unpack(buffer, at)[0]
        self._move_to(self._start + at)

    def _move_to(self, position: int) -> None:
        if position > self.size:
            self.truncated()
        at = position - self._start
        if at <= len(self._buffer):
            self._at = at
        else:
            self._file.seek(position)
            self._buffer, self._start, self._at = b"", position, 0

    def _fill(self, count: int) -> None:
        rest = self._buffer[self._at :]
        self._start += self._at
        self._at = 0
        self._buffer = rest + self._file.read(max(_CHUNK, count) - len(rest))
        if len(self._buffer) < count:  # the file shrank while it was read
            self.truncated()
