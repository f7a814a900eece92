"""The cost of prefilling a changed prompt: tokens, seconds, and confirmation."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ingle.tui.gauges.prefill_cost import PrefillCost, prefill_cost, prompt_rate


def thousand_tokens(message: Mapping[str, str]) -> tuple[int, bool]:
    return 1000, message["content"] != "guessed"


def prompts(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in texts]


def test_only_tokens_after_the_common_prefix_are_prefilled() -> None:
    cached = prompts("system", "a", "b", "c")
    assert prefill_cost(cached, prompts("system", "a", "b", "c"), thousand_tokens, 500).tokens == 0
    assert prefill_cost(cached, prompts("system", "a", "x"), thousand_tokens, 500) == PrefillCost(
        1000, 2.0
    )
    assert prefill_cost(
        cached, prompts("other", "a", "b", "c"), thousand_tokens, 500
    ) == PrefillCost(4000, 8.0)
    assert prefill_cost([], cached, thousand_tokens, None) == PrefillCost(4000, None)


def test_prefill_cost_sentence() -> None:
    assert PrefillCost(6912, 3.1).sentence == "this prefills 6 912 tokens again, about 3 s"
    assert (
        PrefillCost(6912, 3.1, estimated=True).sentence
        == "this prefills ≈ 6 912 tokens again, about 3 s"
    )
    assert PrefillCost(6912).sentence == "this prefills 6 912 tokens again"
    assert PrefillCost(100, 0.1).sentence == ""
    assert PrefillCost(600, 0.1).sentence == ""


def test_only_expensive_prefill_needs_confirmation() -> None:
    assert not PrefillCost(6912, 4.9).needs_confirmation
    assert PrefillCost(6912, 5.0).needs_confirmation
    assert not PrefillCost(6912, None).needs_confirmation
    assert prefill_cost([], prompts("guessed"), thousand_tokens, 1.0).estimated


@pytest.mark.parametrize(
    ("prompt", "cached", "seconds", "rate"),
    [(1000, 0, 2.0, 500.0), (1000, 990, 2.0, None), (1000, 0, 0.0, None)],
)
def test_prompt_rate_needs_enough_uncached_tokens(
    prompt: int, cached: int, seconds: float, rate: float | None
) -> None:
    assert prompt_rate(prompt, cached, seconds) == rate
