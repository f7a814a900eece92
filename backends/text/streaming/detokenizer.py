"""Token ids to text while they are generated."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable

_new_decoder = codecs.getincrementaldecoder("utf-8")


class IncrementalDetokenizer:
    """Joins the bytes of tokens into text and never gives out half a UTF-8 character.

    All text together is the concatenated bytes decoded with errors="replace", wherever the token
    borders are: U+FFFD comes only once no later byte can complete a character.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = _new_decoder(errors="replace")

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that is certain now."""
        return self._decoder.decode(b"".join(map(self._token_bytes, token_ids)))

    def flush(self) -> str:
        """The rest, with U+FFFD for a character that was never completed; starts anew."""
        return self._decoder.decode(b"", final=True)
