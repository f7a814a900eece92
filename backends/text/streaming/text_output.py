"""Streams the text of one sequence in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...base.events import TokenLogprobs
from .detokenizer import IncrementalDetokenizer
from .stop_strings import StopStrings


class TextChunk(NamedTuple):
    """Final text, the ids of all tokens consumed since the previous chunk, and whether to stop.

    A chunk without text has no ids either, unless it is the last. `logprobs` has one entry for each
    id, if they were pushed too.
    """

    text: str
    token_ids: list[int]
    stopped: bool
    logprobs: list[TokenLogprobs] | None = None


class TextOutput:
    """Turns a sequence's tokens into valid UTF-8 text without stop strings."""

    def __init__(self, token_bytes: Callable[[int], bytes], stops: Sequence[str] = ()) -> None:
        self._detokenizer = IncrementalDetokenizer(token_bytes)
        self._stops = StopStrings(stops)
        self._pending: list[int] = []
        self._logprobs: list[TokenLogprobs] | None = None
        self.consumed = 0
        """Number of tokens of the answer so far."""

    @property
    def stopped(self) -> bool:
        """Return whether a stop string was hit."""
        return self._stops.stopped

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
            if self._stops.stopped:
                break
            self._pending.append(token_id)
            self.consumed += 1
            texts.append(self._stops.push(self._detokenizer.push((token_id,)))[0])
        if logprobs is not None:
            self._logprobs = self._logprobs or []
            self._logprobs += logprobs[: self.consumed - before]
        return self._chunk("".join(texts))

    def finish(self) -> TextChunk:
        """Return the rest at the end of the sequence."""
        text, _ = self._stops.push(self._detokenizer.flush())
        return self._chunk(text + self._stops.flush(), last=True)

    def _chunk(self, text: str, *, last: bool = False) -> TextChunk:
        if not text and not self._stops.stopped and not last:
            return TextChunk("", [], False)
        token_ids, self._pending = self._pending, []
        logprobs, self._logprobs = self._logprobs, None
        return TextChunk(text, token_ids, self._stops.stopped, logprobs)
