"""`ThroughputMeter`: measured prefill and decode speed."""

from __future__ import annotations

import pytest

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.throughput_meter import ThroughputMeter, TokenRate
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner


def prompt_of(length: int) -> Sequence:
    return Sequence("r", 0, list(range(length)), SamplingParams())


def test_recent_measurements_weigh_most() -> None:
    rate = TokenRate(memory=1.0)
    assert rate.per_second == 0.0
    for _ in range(100):
        rate.observe(100, 1.0)
    assert rate.per_second == pytest.approx(100)
    for _ in range(20):
        rate.observe(10, 1.0)
    assert rate.per_second == pytest.approx(10, rel=0.01)


def test_prefill_and_decode_rates_are_separate() -> None:
    rates = ThroughputMeter()
    reading = Batch()
    reading.add(prompt_of(64), 64)
    rates.observe(reading, 64, 1, 0.5)
    assert (rates.prompt.per_second, rates.answer.per_second) == (128.0, 0.0)
    writing = Batch()
    writing.add(prompt_of(1), 1, (1, 2, 3))
    rates.observe(writing, 0, 3, 0.1)
    assert rates.answer.per_second == pytest.approx(30.0)
    both = Batch()
    both.add(prompt_of(1), 1)
    both.add(prompt_of(1), 1)
    rates.observe(both, 0, 2, 9.0)  # two concurrent answers say nothing about a single one
    mixed = Batch()
    mixed.add(prompt_of(40), 40)
    mixed.add(prompt_of(1), 1)
    rates.observe(mixed, 40, 1, 9.0)
    short = Batch()
    short.add(prompt_of(4), 4)
    rates.observe(short, 4, 1, 9.0)
    assert rates.prompt.per_second == 128.0
    assert rates.answer.per_second == pytest.approx(30.0)


def test_gauges_report_the_rates() -> None:
    script = '{"reply": "an answer", "step_seconds": 0.001}'
    spec = LoadSpec(engine="scripted", path="", context=256, script=script)
    engine = Engine(ScriptedModelRunner(spec))
    assert (engine.gauges().prompt_rate, engine.gauges().decode_rate) == (0.0, 0.0)
    engine.add(Sequence("r", 0, list(range(100)), SamplingParams(), 8))
    while engine.has_work:
        engine.step()
    gauges = engine.gauges()
    assert 0 < gauges.decode_rate < 1000
    assert gauges.prompt_rate > gauges.decode_rate


def test_gauges_report_the_prompts_that_are_being_computed() -> None:
    engine = Engine(ScriptedModelRunner(LoadSpec(engine="scripted", path="", context=4096)))
    engine.add(Sequence("r", 0, [n % 100 for n in range(3000)], SamplingParams(), 8))
    engine.step()
    gauges = engine.gauges()
    assert gauges.prefill_tokens == 3000
    assert 0 < gauges.prefilled_tokens < 3000
    while engine.gauges().prefill_tokens:
        engine.step()
    assert engine.gauges().running
