"""The token budget for the reasoning of one sequence."""

from __future__ import annotations

from collections.abc import Sequence


class ReasoningBudget:
    """Counts reasoning tokens, and provides the tokens that end it.

    Needs a check only during reasoning, and when `left` has run out.
    """

    def __init__(self, tokens: int, end: Sequence[int]) -> None:
        """After `tokens` in total, reasoning is ended by the tokens in `end`."""
        self._end = list(end)
        self._left = tokens
        self._seen = 0
        self._thinking = False
        self._ended = False

    def left(self, generated: int, *, thinking: bool) -> int | None:
        """Return the reasoning tokens left after `generated` tokens of the answer; None means no
        limit.

        Reasoning that continues after it was ended is not ended again.
        """
        if self._thinking:
            self._left -= generated - self._seen
        self._seen = generated
        self._thinking = thinking
        if not thinking:
            self._ended = False
        return None if not thinking or self._ended else max(0, self._left)

    def end(self) -> list[int]:
        """Return the tokens to force now."""
        self._ended = True
        return self._end
