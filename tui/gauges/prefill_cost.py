"""The cost of discarding KV cache: tokens to prefill again, and seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ..text import number_format

CONFIRM_SECONDS = 5.0
"""Seconds from which a warning needs confirmation."""
MENTION_TOKENS = 256
"""Fewer tokens are prefilled unnoticeably fast."""

RequestMessage = Mapping[str, str]


class PrefillCost(msgspec.Struct, frozen=True):
    """Tokens to prefill again, and the seconds that takes; None if no rate is known."""

    tokens: int = 0
    seconds: float | None = None
    estimated: bool = False

    @property
    def is_noticeable(self) -> bool:
        """Return whether the cost is noticeable."""
        return self.tokens >= MENTION_TOKENS and (self.seconds is None or self.seconds >= 0.3)

    @property
    def needs_confirmation(self) -> bool:
        """Return whether it needs confirmation."""
        return self.seconds is not None and self.seconds >= CONFIRM_SECONDS

    @property
    def sentence(self) -> str:
        """Return `this re-reads 6 912 tokens, about 3 s`; "" if it is not noticeable."""
        if not self.is_noticeable:
            return ""
        about = "≈ " if self.estimated else ""
        time = "" if self.seconds is None else f", about {number_format.remaining(self.seconds)}"
        return f"this re-reads {about}{number_format.tokens(self.tokens)} tokens{time}"


def prefill_cost(
    cached: Sequence[RequestMessage],
    wanted: Sequence[RequestMessage],
    tokens_of: Callable[[RequestMessage], tuple[int, bool]],
    rate: float | None,
) -> PrefillCost:
    """Return the cost of sending `wanted` when the cache holds `cached`.

    The cache is valid up to the first message that differs; the rest of `wanted` is prefilled. With
    another model nothing is cached. `tokens_of` returns a message's tokens and whether they are
    exact; `rate` is prefill tokens per second.
    """
    kept = 0
    for before, after in zip(cached, wanted, strict=False):
        if dict(before) != dict(after):
            break
        kept += 1
    counts = [tokens_of(message) for message in wanted[kept:]]
    tokens = sum(count for count, _ in counts)
    seconds = tokens / rate if rate else None
    return PrefillCost(tokens, seconds, estimated=not all(exact for _, exact in counts))


def prompt_rate(prompt_tokens: int, cached_tokens: int, seconds: float) -> float | None:
    """Return prefill tokens per second of an answer; None if too few were computed to tell."""
    read = prompt_tokens - cached_tokens
    return read / seconds if read >= 64 and seconds > 0 else None
