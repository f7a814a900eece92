"""Keys and values that were read from the store, on their way into a slot."""

from __future__ import annotations

from dataclasses import dataclass, field

from .kv_chunk_file import Data


@dataclass(frozen=True)
class StoredPart:
    """The tokens `start` to `end` of a sequence, from a snapshot of `size` tokens that may be more.

    A part begins where a stored chunk does, and the next one where it ends.
    """

    start: int
    end: int
    size: int
    data: Data = field(repr=False)
