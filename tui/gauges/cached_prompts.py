"""`CachedPrompts`: what the cache was filled with lately, and what sending something else costs."""

from __future__ import annotations

from ..chats.message import MessageFacts
from .context_usage import CountTokens
from .prefill_cost import PrefillCost, prompt_rate, reread_price

REMEMBERED = 8

Request = list[dict[str, str]]


class CachedPrompts:
    """The last requests of a chat with their answers, by model, and how fast they were read."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, Request]] = []
        self._rates: dict[str, float] = {}

    def clear(self) -> None:
        """Another chat: nothing of it is known to be in the cache."""
        self._sent.clear()

    def add(self, model: str, request: Request) -> None:
        """A request is on its way."""
        self._sent.append((model, request))
        del self._sent[:-REMEMBERED]

    def add_answer(self, text: str, facts: MessageFacts) -> None:
        """The last request was answered."""
        if not self._sent:
            return
        model, request = self._sent[-1]
        if text:
            request.append({"role": "assistant", "content": text})
        rate = prompt_rate(facts.prompt_tokens, facts.cached_tokens, facts.prompt_seconds)
        if rate is not None:
            self._rates[model] = rate

    def price(self, wanted: Request, model: str, count: CountTokens, rate: float) -> PrefillCost:
        """What of `wanted` this model would have to read again, at the best of what was sent.

        A new last prompt has to be read in any case: leave it out. Nothing is charged before the
        first request, as long as it is not known what the cache holds. `rate` is the daemon's own,
        0 where it has none.
        """
        if not self._sent:
            return PrefillCost()
        cached = [request for sent_to, request in self._sent if sent_to == model] or [[]]
        known = rate or self._rates.get(model)
        prices = [reread_price(request, wanted, count, known) for request in cached]
        return min(prices, key=lambda price: price.tokens)
