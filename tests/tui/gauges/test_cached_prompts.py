"""The prompts in the model's cache, and what a new prompt costs against them."""

from __future__ import annotations

from collections.abc import Mapping

from ingle.tui.chats.message import MessageFacts
from ingle.tui.gauges.prefill_cost import CachedPrompts, PrefillCost


def hundred_tokens(message: Mapping[str, str]) -> tuple[int, bool]:
    return 100, True


def prompts(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in texts]


FACTS = MessageFacts(prompt_tokens=400, cached_tokens=200, prompt_seconds=0.5)


def test_no_cost_before_anything_was_sent() -> None:
    sent = CachedPrompts()
    assert sent.price(prompts("a", "b"), "m", hundred_tokens, 100.0) == PrefillCost()
    sent.add("m", prompts("a"))
    sent.clear()
    assert sent.price(prompts("a", "b"), "m", hundred_tokens, 100.0) == PrefillCost()


def test_answer_counts_as_cached() -> None:
    sent = CachedPrompts()
    sent.add("m", prompts("a"))
    sent.add_answer("b", FACTS)
    wanted = [*prompts("a"), {"role": "assistant", "content": "b"}]
    assert sent.price(wanted, "m", hundred_tokens, 0.0).tokens == 0
    # 200 tokens were prefilled in half a second.
    assert sent.price(prompts("x", "y"), "m", hundred_tokens, 0.0) == PrefillCost(200, 0.5)
    assert sent.price(prompts("x", "y"), "m", hundred_tokens, 1000.0) == PrefillCost(200, 0.2)


def test_other_model_has_no_cache_and_its_own_rate() -> None:
    sent = CachedPrompts()
    sent.add("m", prompts("a", "b"))
    sent.add_answer("c", FACTS)
    assert sent.price(prompts("a", "b"), "other", hundred_tokens, 0.0) == PrefillCost(200, None)


def test_longest_matching_prompt_counts_as_cached() -> None:
    sent = CachedPrompts()
    sent.add("m", prompts("long", "chat", "of", "mine"))
    sent.add("m", prompts("summary"))
    assert sent.price(prompts("long", "chat", "of", "mine"), "m", hundred_tokens, 100.0).tokens == 0
