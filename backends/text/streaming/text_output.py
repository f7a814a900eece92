"""Streams the text of one sequence in chunks, up to a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...base.events import TokenLogprobs

_new_decoder = codecs.getincrementaldecoder("utf-8")


class TextChunk(NamedTuple):
    """Final text, and the ids of all tokens consumed since the previous chunk.

    A chunk without text has no ids either, unless it is the last or a stop string was hit.
    `logprobs` has one entry for each id, if they were pushed too.
    """

    text: str
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None = None


class TextOutput:
    """Turns a sequence's tokens into valid UTF-8 text without stop strings.

    Token borders do not matter: U+FFFD appears only once no later byte can complete a character.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], stops: Sequence[str] = ()) -> None:
        self._token_bytes = token_bytes
        self._decoder = _new_decoder(errors="replace")
        self._stops = StopStrings(stops)
        self._pending: list[int] = []
        self._logprobs: list[TokenLogprobs] | None = None
        self.consumed = 0
        """Number of tokens of the answer so far."""

    @property
    def stop(self) -> str | None:
        """Return the stop string that was hit, None without one."""
        return self._stops.found

    def push(
        self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs] | None = None
    ) -> TextChunk:
        """Return the text that became certain; tokens after a complete stop string are dropped.

        `logprobs` covers at least these tokens.
        """
        before = self.consumed
        texts: list[str] = []
        for token_id in token_ids:
            if self._stops.found is not None:
                break
            self._pending.append(token_id)
            self.consumed += 1
            texts.append(self._stops.push(self._decoder.decode(self._token_bytes(token_id))))
        if logprobs is not None:
            self._logprobs = self._logprobs or []
            self._logprobs += logprobs[: self.consumed - before]
        return self._chunk("".join(texts))

    def finish(self) -> TextChunk:
        """Return the rest at the end of the sequence."""
        text = self._stops.push(self._decoder.decode(b"", final=True))
        return self._chunk(text + self._stops.flush(), last=True)

    def _chunk(self, text: str, *, last: bool = False) -> TextChunk:
        if not text and self._stops.found is None and not last:
            return TextChunk("", [])
        token_ids, self._pending = self._pending, []
        logprobs, self._logprobs = self._logprobs, None
        return TextChunk(text, token_ids, logprobs)


class StopStrings:
    """Holds back text that may begin a stop string, and stops at the first complete one.

    The stop string completed first wins; of several that end with the same character, the one that
    starts first. The result does not depend on chunk borders. Raises `ValueError` for an empty stop
    string.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise ValueError("a stop string must not be empty")
        self._stops = tuple(stops)
        self._held: str = ""
        self.found: str | None = None
        """The stop string that was found; no text is returned afterwards."""

    def push(self, text: str) -> str:
        """Return text that is certainly not part of a stop string.

        Text before the stop string is returned, the string itself and later text never.
        """
        if not self._stops:
            return text
        if self.found is not None:
            return ""
        text = self._held + text
        found = self._find(text)
        if found is None:
            start = self._first_possible(text)
            self._held = text[start:]
        else:
            start, self.found = found
            self._held = ""
        return text[:start]

    def flush(self) -> str:
        """Return the text held back, at the end of the stream."""
        held, self._held = self._held, ""
        return held

    def _find(self, text: str) -> tuple[int, str] | None:
        """Return the start of the stop string completed first, and the string."""
        found: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0 and (found is None or (start + len(stop), start) < found[:2]):
                found = (start + len(stop), start, stop)
        return found[1:] if found is not None else None

    def _first_possible(self, text: str) -> int:
        """Return where the longest suffix of `text` starts that begins a stop string."""
        first = len(text)
        for stop in self._stops:
            start = text.find(stop[0], max(0, len(text) - len(stop) + 1))
            while 0 <= start < first:
                if stop.startswith(text[start:]):
                    first = start
                start = text.find(stop[0], start + 1)
        return first
