"""A search for text that must not be left in any file."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

Traces = Callable[[str], list[str]]


@pytest.fixture
def traces(ingle_home: Path) -> Traces:
    """Names of the files below the home that contain a word, as text or as byte token ids."""

    def find(word: str) -> list[str]:
        text = word.encode()
        encodings = (text, text.hex().encode(), struct.pack(f"<{len(text)}i", *text))
        return sorted(
            str(path.relative_to(ingle_home))
            for path in ingle_home.rglob("*")
            if path.is_file() and any(encoding in path.read_bytes() for encoding in encodings)
        )

    return find
