"""Words that must not be found anywhere, and the search for them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

Traces = Callable[[str], list[str]]


@pytest.fixture
def traces(ingle_home: Path) -> Traces:
    """Names of the files below the home that hold a word, as text or as ids of byte tokens."""

    def find(word: str) -> list[str]:
        text = word.encode()
        spellings = (text, text.hex().encode(), struct.pack(f"<{len(text)}i", *text))
        return sorted(
            str(path.relative_to(ingle_home))
            for path in ingle_home.rglob("*")
            if path.is_file() and any(spelt in path.read_bytes() for spelt in spellings)
        )

    return find
