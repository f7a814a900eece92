"""The measured speed of prefill and decode."""

from __future__ import annotations

from .batch import Batch

_SMALLEST_PROMPT = 32
"""Fewer tokens of a step say little about the cost of one."""
_PROMPT_MEMORY = 4.0
_ANSWER_MEMORY = 2.0
"""Seconds of work after which what was measured counts about a third."""


class TokenRate:
    """Tokens a second, of late."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._tokens = 0.0
        self._seconds = 0.0

    @property
    def per_second(self) -> float:
        """0 where nothing was measured."""
        return self._tokens / self._seconds if self._seconds > 0 else 0.0

    def observe(self, tokens: int, seconds: float) -> None:
        """Learn from so much work."""
        kept = self._memory / (self._memory + seconds)
        self._tokens = kept * self._tokens + tokens
        self._seconds = kept * self._seconds + seconds


class ThroughputMeter:
    """Learns from steps with prefill only, or with one decoding sequence only."""

    def __init__(self) -> None:
        self.prompt = TokenRate(_PROMPT_MEMORY)
        self.answer = TokenRate(_ANSWER_MEMORY)

    def observe(self, batch: Batch, prompt_tokens: int, generated: int, seconds: float) -> None:
        """Learn from one step."""
        if prompt_tokens == batch.num_tokens:
            if prompt_tokens >= _SMALLEST_PROMPT:
                self.prompt.observe(prompt_tokens, seconds)
        elif not prompt_tokens and len(batch.chunks) == 1:
            self.answer.observe(generated, seconds)
