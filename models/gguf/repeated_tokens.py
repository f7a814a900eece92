"""Find duplicate tokens of a GGUF file before native code reads them."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from ..errors import ModelError
from .gguf_reader import HeaderReader, ValueType

_KEY = "tokenizer.ggml.tokens"


def find_duplicate_token(path: Path) -> str | None:
    """A token that is in the vocabulary twice, which makes llama.cpp abort, or None.

    A file that cannot be read has none: loading it reports why. Holds the texts while it runs,
    some 20 MB for the largest vocabularies: for the process that loads the model.
    """
    try:
        with path.open("rb") as file:
            reader = HeaderReader(file, path, path.stat().st_size)
            count = _find(reader)
            if not count:
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
                return _first_repeated(pages, reader.position, count)
    except (OSError, ValueError, ModelError, struct.error):
        return None


def _find(reader: HeaderReader) -> int:
    """Move to the first token; returns how many there are."""
    for key, kind in reader.metadata():
        if key == _KEY and kind is ValueType.ARRAY:
            element, length = ValueType(reader.u32()), reader.u64()
            return length if element is ValueType.STRING else 0
        reader.skip_value(kind)
    return 0


def _first_repeated(pages: mmap.mmap, at: int, count: int) -> str | None:
    # Locals only: this loop runs once a token of the vocabulary, 262,144 times for some.
    unpack, seen = struct.Struct("<Q").unpack_from, set[bytes]()
    for _ in range(count):
        (length,) = unpack(pages, at)
        at += 8
        text = pages[at : at + length]
        at += length
        if text in seen and text:  # those without a text are given one
            return text.decode("utf-8", "replace")[:40]
        seen.add(text)
    return None
