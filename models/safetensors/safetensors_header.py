"""The header of a safetensors file, read without trusting its bytes.

Source: the format's description in the safetensors repository. A file begins with the length of
a JSON object that names each tensor's type, shape and place; the tensors follow without a gap.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn, cast

from ..errors import InvalidModel, UnsupportedModel
from ..gguf.gguf_reader import HeaderFile
from ..model_file import open_model_file

# Files with tens of thousands of tensors need no more; the format itself allows 100 MB.
_LONGEST_HEADER = 1 << 23
_LONGEST_NAME = 512
_MAX_DIMENSIONS = 8
_MAX_ELEMENTS = 1 << 50

_DTYPES_BY_WIDTH = {
    1: ("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"),
    2: ("U16", "I16", "F16", "BF16"),
    4: ("U32", "I32", "F32"),
    8: ("U64", "I64", "F64", "C64"),
}
DTYPE_BYTES: Mapping[str, int] = {
    dtype: width for width, dtypes in _DTYPES_BY_WIDTH.items() for dtype in dtypes
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor: `dtype` in the format's words (`BF16`), `offset` from the file's start."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    bytes: int


def read_safetensors_header(path: Path) -> tuple[StoredTensor, ...]:
    """The tensors of one file in the order of their places.

    Raises `ModelNotFound` where no file can be opened, `InvalidModel` for one that is damaged, and
    `UnsupportedModel` for types that this reader does not know.
    """
    with open_model_file(path) as file:
        return parse_safetensors_header(file, path, os.fstat(file.fileno()).st_size)


def parse_safetensors_header(file: HeaderFile, path: Path, size: int) -> tuple[StoredTensor, ...]:
    """The tensors of a `file` of so many bytes; `path` names it in errors."""
    if size < 8:
        _truncated(path)
    length = int.from_bytes(file.read(8), "little")
    if length > _LONGEST_HEADER:
        _fail(path, f"claims a header of {length} bytes")
    if length > size - 8:
        _truncated(path)
    raw = file.read(length)
    if len(raw) < length:  # it shrank while it was read
        _truncated(path)
    entries = parse_json_object(raw, path, "header")
    entries.pop("__metadata__", None)
    tensors = [_read_tensor(path, name, entry, 8 + length) for name, entry in entries.items()]
    return _in_place(path, tensors, 8 + length, size)


def parse_json_object(raw: bytes, path: Path, what: str) -> dict[str, Any]:
    """A JSON object without duplicate keys; raises `InvalidModel` for anything else."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            _fail(path, f"has a key twice in its {what}")
        return found

    try:
        value: object = json.loads(raw.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        _fail(path, f"has a {what} that is not JSON")
    if not isinstance(value, dict):
        _fail(path, f"has a {what} that is not a JSON object")
    return cast("dict[str, Any]", value)


def _read_tensor(path: Path, name: str, entry: object, data: int) -> StoredTensor:
    if len(name) > _LONGEST_NAME:
        _fail(path, f"has a tensor name of {len(name)} letters")
    fields: dict[str, object] = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    dtype, shape = fields.get("dtype"), _integers(fields.get("shape"))
    place = _integers(fields.get("data_offsets"))
    if not isinstance(dtype, str) or shape is None or place is None or len(place) != 2:
        _fail(path, f"does not say what {name!r} is")
    width = DTYPE_BYTES.get(dtype)
    if width is None:
        raise UnsupportedModel(
            f"{path} stores {name!r} with the unknown type {dtype[:20]!r}.",
            hint="Choose an edition in BF16, F16 or F32.",
        )
    # Before the product, which many large factors would make a number of any length.
    if len(shape) > _MAX_DIMENSIONS or max(shape, default=0) > _MAX_ELEMENTS:
        _fail(path, f"gives {name!r} an impossible shape")
    size = prod(shape) * width
    if place[1] - place[0] != size:
        _fail(path, f"gives {name!r} {place[1] - place[0]} bytes, not {size}")
    return StoredTensor(name, dtype, shape, data + place[0], size)


def _integers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    items = cast("list[object]", value)
    if any(type(item) is not int or not 0 <= item < 1 << 62 for item in items):
        return None
    return tuple(cast("list[int]", items))


def _in_place(
    path: Path, tensors: list[StoredTensor], start: int, size: int
) -> tuple[StoredTensor, ...]:
    """The tensors in order, one directly after the other from `start` to the file's end."""
    tensors.sort(key=lambda tensor: (tensor.offset, tensor.bytes))
    end, previous = start, ""
    for tensor in tensors:
        if tensor.offset < end:
            _fail(path, f"lets {tensor.name!r} overlap {previous!r}")
        if tensor.offset > end:
            _fail(path, f"has bytes in front of {tensor.name!r} that belong to no tensor")
        end, previous = tensor.offset + tensor.bytes, tensor.name
    if end > size:
        _truncated(path)
    if end < size:
        _fail(path, "has bytes at its end that belong to no tensor")
    return tuple(tensors)


def _fail(path: Path, reason: str) -> NoReturn:
    raise InvalidModel(f"{path} {reason}.", hint="Download it again: the file is damaged.")


def _truncated(path: Path) -> NoReturn:
    raise InvalidModel(f"{path} is truncated.", hint="Download it again.")
