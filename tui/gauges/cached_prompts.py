"""Recent requests in the KV cache, and the prefill cost of sending something else."""

from __future__ import annotations

from ..chats.message import MessageFacts
from .context_usage import CountTokens
from .prefill_cost import PrefillCost, prefill_cost, prompt_rate

REMEMBERED = 8

Request = list[dict[str, str]]


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
        if text:
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
