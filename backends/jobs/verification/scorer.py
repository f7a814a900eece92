"""An engine that says, for every token of a text, what it expects to come next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .logit_comparison import Logits

_CHUNK_ELEMENTS = 1 << 25
_LONGEST_CHUNK = 512


class Scorer(Protocol):
    """Reads windows of tokens from first to last, a chunk at a time, and keeps what it read."""

    @property
    def device(self) -> str:
        """What it computes on, in words."""
        ...

    def begin(self) -> None:
        """Forget what was read; a new window comes."""
        ...

    def read(self, window: Sequence[int], start: int, end: int) -> Logits:
        """Logits (end - start, vocabulary) of what follows each of the tokens `start` to `end`.

        Everything before `start` was read. The next call may write over the array.
        """
        ...

    def close(self) -> None:
        """Free everything."""
        ...


def chunk_size(vocab_size: int) -> int:
    """Tokens to read at once, so that their logits stay far below the size of a model.

    It is odd, and so no multiple of a page or a block: chunks begin and end inside them.
    """
    return max(1, min(_LONGEST_CHUNK, _CHUNK_ELEMENTS // vocab_size) - 1) | 1
