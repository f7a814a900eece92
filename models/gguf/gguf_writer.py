"""The header of a GGUF file, as bytes.

Source: the GGUF specification in the ggml repository.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

from .ggml_types import TENSOR_TYPES, TensorType
from .gguf_reader import SCALARS, HeaderReader, ValueType

ALIGNMENT = 32
_START = struct.Struct("<4sIQQ")
_VERSION = 3
_NUMBERS = {kind.name: number for number, kind in TENSOR_TYPES.items()}
_TYPES = {kind.name: kind for kind in TENSOR_TYPES.values()}

Value = bool | int | float | str | Sequence[str] | Sequence[int] | Sequence[float]


class PlannedTensor(NamedTuple):
    """A tensor to be written: `shape` in ggml's order (row length first), `type` ggml's name."""

    name: str
    shape: tuple[int, ...]
    type: str

    @property
    def bytes(self) -> int:
        """What it takes, without the padding behind it."""
        kind = tensor_type(self.type)
        return prod(self.shape) // kind.block_elements * kind.block_bytes


def tensor_type(name: str) -> TensorType:
    """The storage format of this name."""
    return _TYPES[name]


def ggml_type_number(name: str) -> int:
    """ggml's number of a storage format."""
    return _NUMBERS[name]


def padded(count: int) -> int:
    """Bytes that `count` bytes take together with the padding behind them."""
    return -(-count // ALIGNMENT) * ALIGNMENT


def encode_pair(key: str, value: Value) -> bytes:
    """One key with its value: whole numbers as uint32 (negative ones int32), others as float32."""
    return _text(key) + _value(value)


def encode_header(pairs: Sequence[bytes], tensors: Sequence[PlannedTensor]) -> bytes:
    """All that stands before the data of the tensors, which follow in their order, each padded."""
    parts = [_START.pack(b"GGUF", _VERSION, len(tensors), len(pairs)), *pairs]
    offset = 0
    for tensor in tensors:
        shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        place = struct.pack("<IQ", ggml_type_number(tensor.type), offset)
        parts.append(_text(tensor.name) + shape + place)
        offset += padded(tensor.bytes)
    header = b"".join(parts)
    return header.ljust(padded(len(header)), b"\0")


def read_pairs(path: Path) -> Iterator[tuple[str, bytes]]:
    """The keys of a file, which `read_header` has accepted, each with its encoded pair."""
    with path.open("rb") as file, path.open("rb") as again:
        reader = HeaderReader(file, path, path.stat().st_size)
        start = _START.size
        for key, kind in reader.metadata():
            reader.skip_value(kind)
            again.seek(start)
            yield key, again.read(reader.position - start)
            start = reader.position


def _value(value: Value) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", ValueType.STRING) + _text(value)
    if isinstance(value, bool | int | float):
        kind = _kind_of(value)
        return struct.pack("<I", kind) + SCALARS[kind].pack(value)
    items = list(value)
    kind = ValueType.INT32
    if items and isinstance(items[0], str | float):
        kind = ValueType.STRING if isinstance(items[0], str) else ValueType.FLOAT32
    head = struct.pack("<IIQ", ValueType.ARRAY, kind, len(items))
    if kind is ValueType.STRING:
        return head + b"".join(_text(str(item)) for item in items)
    return head + struct.pack(f"<{len(items)}{SCALARS[kind].format[1]}", *items)


def _kind_of(value: bool | float) -> ValueType:
    if isinstance(value, bool):
        return ValueType.BOOL
    if isinstance(value, float):
        return ValueType.FLOAT32
    return ValueType.UINT32 if value >= 0 else ValueType.INT32


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(raw)) + raw
