"""The cost of discarding KV cache: tokens to prefill again, and seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ..chats.context_view import RequestMessage
from ..chats.message import MessageFacts
from ..text import number_format
from .context_usage import CountTokens

CONFIRM_SECONDS = 5.0
"""Seconds from which a warning needs confirmation."""
MENTION_TOKENS = 256
"""Fewer tokens are prefilled unnoticeably fast."""


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
        """Return `this prefills 6 912 tokens again, about 3 s`; "" if it is not noticeable."""
        if not self.is_noticeable:
            return ""
        about = "≈ " if self.estimated else ""
        time = "" if self.seconds is None else f", about {number_format.remaining(self.seconds)}"
        return f"this prefills {about}{number_format.counted(self.tokens, 'token')} again{time}"


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


REMEMBERED = 8

Request = list[RequestMessage]


class CachedPrompts:
    """The last requests of a chat with their answers, by model, and prefill rates."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, Request]] = []
        self._rates: dict[str, float] = {}

    def clear(self) -> None:
        """Forget everything, for another chat."""
        self._sent.clear()

    def add(self, model: str, request: Request) -> None:
        """Add a request that was sent."""
        self._sent.append((model, request))
        del self._sent[:-REMEMBERED]

    def add_answer(self, text: str, facts: MessageFacts) -> None:
        """Add the answer to the last request."""
        if not self._sent:
            return
        model, request = self._sent[-1]
        if text and not facts.calls:
            request.append({"role": "assistant", "content": text})
        rate = prompt_rate(facts.prompt_tokens, facts.cached_tokens, facts.prompt_seconds)
        if rate is not None:
            self._rates[model] = rate

    def price(self, wanted: Request, model: str, count: CountTokens, rate: float) -> PrefillCost:
        """Return the cost of prefilling `wanted` with this model, given the requests sent.

        Leave out a new last prompt, which must be prefilled in any case. The cost is 0 before the
        first request, while the cache is unknown. `rate` is the daemon's own, 0 if unknown.
        """
        if not self._sent:
            return PrefillCost()
        cached = [request for sent_to, request in self._sent if sent_to == model] or [[]]
        known = rate or self._rates.get(model)
        prices = [prefill_cost(request, wanted, count, known) for request in cached]
        return min(prices, key=lambda price: price.tokens)
