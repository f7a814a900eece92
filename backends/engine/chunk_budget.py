"""How many prompt tokens a step may read."""

from __future__ import annotations

_PAUSE_SECONDS = 0.2
_SMALLEST = 32
_BEFORE_MEASURING = 64
_MEMORY = 0.7


class ChunkBudget:
    """Lets a long prompt pass without stalling those who are being answered.

    While nobody decodes, a step reads as much as it can. Otherwise it reads what fits into a short
    pause between two tokens, going by how long the steps before it took.
    """

    def __init__(self, most: int) -> None:
        """`most` is the number of tokens a step may have."""
        self._most = most
        self._seconds_per_token: float | None = None

    def limit(self, *, decoding: bool) -> int:
        """Prompt tokens for the next step."""
        if not decoding:
            return self._most
        if self._seconds_per_token is None:
            return min(self._most, _BEFORE_MEASURING)
        return min(self._most, max(_SMALLEST, int(_PAUSE_SECONDS / self._seconds_per_token)))

    def observe(self, tokens: int, seconds: float) -> None:
        """Learn from a step; those too small to tell what a prompt token costs are passed over."""
        if tokens < _SMALLEST:
            return
        measured = seconds / tokens
        known = self._seconds_per_token
        if known is not None:
            measured = _MEMORY * known + (1 - _MEMORY) * measured
        self._seconds_per_token = measured
