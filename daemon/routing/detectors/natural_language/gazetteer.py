"""A hash table of names of people and places, and of ordinary words."""

from __future__ import annotations

import functools
import unicodedata
import zlib
from collections.abc import Sequence

import numpy as np

from ...text_analysis.data_files import read_data_file

_MAGIC = b"INGLEGZ1"
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "’": "'"})

# Uses of a word, which may have several. Plain integers: an IntFlag's `&` takes 1 µs.
FIRST = 1
LAST = 2
PLACE = 4
WORD = 8


def fold(word: str) -> str:
    """Return the word without case and accents, as stored in the table."""
    word = word.casefold()
    if word.isascii():
        return word
    parts = unicodedata.normalize("NFKD", word)
    return "".join(part for part in parts if not unicodedata.combining(part)).translate(_LETTERS)


class Gazetteer:
    """Looks words up by a 32-bit hash; about one unknown word in 20,000 is mistaken for a known
    one.

    The table is written by `scripts/make-gazetteer`: the magic number, the number of entries, their
    hashes in ascending order (uint32), their flags (uint8); little-endian.
    """

    def __init__(self, table: bytes) -> None:
        if table[: len(_MAGIC)] != _MAGIC:
            raise ValueError("not a gazetteer table")
        count = int.from_bytes(table[8:12], "little")
        self._hashes = np.frombuffer(table, "<u4", count, offset=12)
        self._flags = np.frombuffer(table, "u1", count, offset=12 + 4 * count)

    @staticmethod
    def pack(entries: dict[str, int]) -> bytes:
        """Return a table of folded words and their flags."""
        merged: dict[int, int] = {}
        for word, flags in entries.items():
            key = zlib.crc32(word.encode())
            merged[key] = merged.get(key, 0) | flags
        keys = sorted(merged)
        hashes = np.array(keys, "<u4").tobytes()
        flags = np.array([merged[key] for key in keys], "u1").tobytes()
        return _MAGIC + len(keys).to_bytes(4, "little") + hashes + flags

    def flags(self, words: Sequence[str]) -> list[int]:
        """Return the uses of each folded word; 0 for an unknown one."""
        if not words:
            return []
        keys = np.array([zlib.crc32(word.encode("utf-8", "replace")) for word in words], "u4")
        places = np.minimum(np.searchsorted(self._hashes, keys), len(self._hashes) - 1)
        return np.where(self._hashes[places] == keys, self._flags[places], 0).tolist()


@functools.cache
def shipped_gazetteer() -> Gazetteer:
    """Return the table that is shipped with ingle."""
    return Gazetteer(read_data_file("names.bin"))
