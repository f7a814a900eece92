"""Converts token ids to text during generation."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable

_new_decoder = codecs.getincrementaldecoder("utf-8")


class IncrementalDetokenizer:
    """Joins the bytes of tokens into text without splitting UTF-8 characters.

    The concatenated output equals the bytes decoded with errors="replace", regardless of token
    borders: U+FFFD appears only once no later byte can complete a character.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = _new_decoder(errors="replace")

    def push(self, token_ids: Iterable[int]) -> str:
        """Return the text that is certain now."""
        return self._decoder.decode(b"".join(map(self._token_bytes, token_ids)))

    def flush(self) -> str:
        """Return the rest, with U+FFFD for an incomplete character, and reset."""
        return self._decoder.decode(b"", final=True)
