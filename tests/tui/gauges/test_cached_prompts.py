from __future__ import annotations

from collections.abc import Mapping

from ingle.tui.chats.message import MessageFacts
from ingle.tui.gauges.prefill_cost import CachedPrompts, PrefillCost


def hundred(message: Mapping[str, str]) -> tuple[int, bool]:
    return 100, True


def said(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in texts]


FACTS = MessageFacts(prompt_tokens=400, cached_tokens=200, prompt_seconds=0.5)


def test_nothing_is_charged_before_anything_was_sent() -> None:
    sent = CachedPrompts()
    assert sent.price(said("a", "b"), "m", hundred, 100.0) == PrefillCost()
    sent.add("m", said("a"))
    sent.clear()
    assert sent.price(said("a", "b"), "m", hundred, 100.0) == PrefillCost()


def test_an_answer_is_in_the_cache_too() -> None:
    sent = CachedPrompts()
    sent.add("m", said("a"))
    sent.add_answer("b", FACTS)
    wanted = [*said("a"), {"role": "assistant", "content": "b"}]
    assert sent.price(wanted, "m", hundred, 0.0).tokens == 0
    # 200 tokens were read in half a second.
    assert sent.price(said("x", "y"), "m", hundred, 0.0) == PrefillCost(200, 0.5)
    assert sent.price(said("x", "y"), "m", hundred, 1000.0) == PrefillCost(200, 0.2)


def test_another_model_has_read_nothing_and_has_its_own_rate() -> None:
    sent = CachedPrompts()
    sent.add("m", said("a", "b"))
    sent.add_answer("c", FACTS)
    assert sent.price(said("a", "b"), "other", hundred, 0.0) == PrefillCost(200, None)


def test_of_what_was_sent_the_nearest_counts() -> None:
    sent = CachedPrompts()
    sent.add("m", said("long", "chat", "of", "mine"))
    sent.add("m", said("summary"))
    assert sent.price(said("long", "chat", "of", "mine"), "m", hundred, 100.0).tokens == 0
