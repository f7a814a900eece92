"""Find what is wrong with the vocabulary of a GGUF file before native code reads it."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from ..errors import ModelError
from .gguf_reader import HeaderReader, ValueType

_PREFIX = "tokenizer.ggml."
_BYTE = 6
"""The kind of a token that stands for one byte."""


@dataclass
class _Vocabulary:
    """Positions of the lists in the file, and their lengths."""

    model: str = ""
    tokens: tuple[int, int] = (0, 0)
    kinds: tuple[int, int] = (0, 0)


def find_vocabulary_fault(path: Path) -> str | None:
    """What makes llama.cpp abort, as the end of a sentence about the file, or None.

    A file that cannot be read has no fault: loading it reports why. Holds the texts while it runs,
    some 20 MB for the largest vocabularies: for the process that loads the model.
    """
    try:
        with path.open("rb") as file:
            found = _find(HeaderReader(file, path, path.stat().st_size))
            if not found.tokens[1]:
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
                if found.model == "bert" and _has_bytes(pages, *found.kinds):
                    return "has tokens of bytes, which a vocabulary of its kind cannot have"
                token = _first_repeated(pages, *found.tokens)
    except (OSError, ValueError, ModelError, struct.error):
        return None
    return None if token is None else f"has the token {token!r} twice"


def _find(reader: HeaderReader) -> _Vocabulary:
    found = _Vocabulary()
    for key, kind in reader.metadata():
        if key == f"{_PREFIX}model" and kind is ValueType.STRING:
            found.model = reader.text() or ""
        elif kind is ValueType.ARRAY:
            element, length = ValueType(reader.u32()), reader.u64()
            place = reader.position, length
            if key == f"{_PREFIX}tokens" and element is ValueType.STRING:
                found.tokens = place
            elif key == f"{_PREFIX}token_type" and element is ValueType.INT32:
                found.kinds = place
            reader.skip_array(element, length)
        else:
            reader.skip_value(kind)
    return found


def _has_bytes(pages: mmap.mmap, at: int, count: int) -> bool:
    return _BYTE in memoryview(pages[at : at + 4 * count]).cast("i")


def _first_repeated(pages: mmap.mmap, at: int, count: int) -> str | None:
    # Locals only: this loop runs once a token of the vocabulary, 262,144 times for some.
    unpack, seen = struct.Struct("<Q").unpack_from, set[bytes]()
    for number in range(count):
        (length,) = unpack(pages, at)
        at += 8
        text = pages[at : at + length] or b"[EMPTY_%d]" % number  # as llama.cpp names it
        at += length
        if text in seen:
            return text.decode("utf-8", "replace")[:40]
        seen.add(text)
    return None
