"""The cost of switching models: prefill, evicted models, and confirmation."""

from __future__ import annotations

import pytest

from ingle.daemon.client.model_types import LoadedModel, ModelEntry, ModelFit, ModelState
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.gauges.model_switch_cost import (
    ModelSwitchCost,
    estimate_switch_cost,
    prefill_rate,
    view_tokens,
)

GB = 10**9
QWEN = LoadedModel(name="qwen", state=ModelState.READY, weights_bytes=5 * GB, kv_bytes=GB)
OTHER = LoadedModel(name="other", state=ModelState.READY, weights_bytes=2 * GB)
SMOL = ModelEntry(
    name="smollm2",
    installed=True,
    state="stopped",
    size=98_000_000,
    parameters=134_000_000,
    fit=ModelFit(device="cpu", state="fits", needs_bytes=400_000_000, free_bytes=9 * GB),
)


def _switch_cost(
    target: ModelEntry = SMOL,
    *loaded: LoadedModel,
    tokens: int = 3120,
    rate: float | None = 800.0,
    free: float | None = 8,
) -> ModelSwitchCost:
    return estimate_switch_cost(
        target,
        current="qwen",
        loaded=loaded,
        tokens=tokens,
        rate=rate,
        free_bytes=None if free is None else int(free * GB),
    )


def test_model_that_stays_loaded_is_mentioned() -> None:
    cost = _switch_cost(SMOL, QWEN)
    assert not cost.needs_confirmation
    assert cost.sentence() == (
        "smollm2 will prefill 3 120 tokens, about 4.0 s and needs 400 MB; qwen stays warm."
    )


def test_current_model_is_evicted_last() -> None:
    large = ModelEntry(
        name="large",
        installed=True,
        state="stopped",
        fit=ModelFit(device="cpu", state="fits", needs_bytes=3 * GB),
    )
    one = _switch_cost(large, QWEN, OTHER, free=2.2, tokens=0)
    assert one.evicted == ("other",)
    assert one.needs_confirmation
    assert one.sentence() == "large needs 3.0 GB; other is unloaded."
    both = _switch_cost(large, QWEN, OTHER, free=1.2, tokens=0)
    assert both.evicted == ("other", "qwen")
    assert both.stays is None


def test_busy_model_is_not_evicted() -> None:
    busy = LoadedModel(name="busy", state=ModelState.READY, weights_bytes=5 * GB, running=1)
    assert _switch_cost(SMOL, busy, free=0.5).evicted == ()


def test_no_eviction_is_announced_without_memory_information() -> None:
    assert _switch_cost(SMOL, QWEN, free=None).evicted == ()
    gpu = ModelEntry(
        name="gpu",
        installed=True,
        state="stopped",
        fit=ModelFit(device="cuda", state="fits", needs_bytes=9 * GB),
    )
    assert _switch_cost(gpu, QWEN, free=1).evicted == ()


def test_warm_model_and_empty_chat_cost_nothing() -> None:
    warm = LoadedModel(name="smollm2", state=ModelState.READY)
    cost = _switch_cost(SMOL, QWEN, warm, tokens=0)
    assert cost.sentence() == ""
    assert not cost.needs_confirmation


def test_long_prefill_needs_confirmation() -> None:
    assert _switch_cost(SMOL, QWEN, rate=100).needs_confirmation
    unknown = _switch_cost(SMOL, QWEN, rate=None)
    assert not unknown.needs_confirmation
    assert "about" not in unknown.sentence()


def _answer(model: str, prompt: int, cached: int, seconds: float) -> Message:
    facts = MessageFacts(
        prompt_tokens=prompt, cached_tokens=cached, prompt_seconds=seconds, completion_tokens=50
    )
    return Message(role="assistant", model=model, facts=facts)


def test_prefill_rate_is_measured_or_scaled_by_model_size() -> None:
    answers = [_answer("qwen", 1000, 0, 2.0), _answer("qwen", 1300, 1000, 1.0)]
    sizes = {"qwen": 1_340_000_000}
    assert prefill_rate(SMOL, answers, sizes) == pytest.approx(3000)
    own = [*answers, _answer("smollm2", 900, 0, 0.5)]
    assert prefill_rate(SMOL, own, sizes) == pytest.approx(1800)
    assert prefill_rate(SMOL, [_answer("qwen", 20, 10, 0.1)], sizes) is None
    assert prefill_rate(SMOL, answers, {}) is None


def test_prefill_rate_of_the_engine_takes_precedence() -> None:
    answers = [_answer("smollm2", 900, 0, 0.5)]
    measured = LoadedModel(name="smollm2", state=ModelState.READY, prompt_rate=2500.0)
    assert prefill_rate(SMOL, answers, {}, [measured]) == 2500
    other = LoadedModel(name="qwen", state=ModelState.READY, prompt_rate=100.0)
    assert prefill_rate(SMOL, [], {"qwen": 1_340_000_000}, [other]) == pytest.approx(1000)


def test_view_tokens_come_from_the_last_answer() -> None:
    answers = [_answer("qwen", 1000, 0, 2.0), _answer("qwen", 1300, 1000, 1.0)]
    assert view_tokens([Message(role="user", content="hi"), *answers]) == 1350
    assert view_tokens([]) == 0
