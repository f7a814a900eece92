"""How long one sequence may think."""

from __future__ import annotations

from collections.abc import Sequence


class ReasoningBudget:
    """Counts tokens of thought, and knows what ends one.

    It needs to be asked only while the model thinks, and when `left` has run out.
    """

    def __init__(self, tokens: int, end: Sequence[int]) -> None:
        """After so many `tokens` in all the thought is ended by the tokens in `end`."""
        self._end = list(end)
        self._left = tokens
        self._seen = 0
        self._thinking = False
        self._ended = False

    def left(self, generated: int, *, thinking: bool) -> int | None:
        """Tokens of thought that may follow the `generated` ones of the answer; None: any number.

        What has been ended and still goes on cannot be ended.
        """
        if self._thinking:
            self._left -= generated - self._seen
        self._seen = generated
        self._thinking = thinking
        if not thinking:
            self._ended = False
        return None if not thinking or self._ended else max(0, self._left)

    def end(self) -> list[int]:
        """What is to be said now."""
        self._ended = True
        return self._end
