"""The speed meter: token rates, history, energy per token and draft acceptance."""

from __future__ import annotations

import pytest

from ingle.daemon.client.daemon_types import DeviceGauges, GaugesEvent
from ingle.daemon.client.model_types import LoadedModel, ModelState
from ingle.tui.gauges.speed_meter import SpeedMeter

pytestmark = pytest.mark.quick


def gauges(
    written: int = 0,
    read: int = 0,
    joules: float | None = None,
    drafts: tuple[int, int] = (0, 0),
    running: int = 1,
) -> GaugesEvent:
    model = LoadedModel(
        name="m",
        state=ModelState.READY,
        running=running,
        completion_tokens_total=written,
        prompt_tokens_total=read,
        drafted_tokens_total=drafts[0],
        accepted_tokens_total=drafts[1],
    )
    devices = [] if joules is None else [DeviceGauges(name="g", kind="gpu", joules=joules, watts=9)]
    return GaugesEvent(models=[model], devices=devices)


def test_rate_covers_the_recent_seconds() -> None:
    meter = SpeedMeter()
    for step in range(21):
        meter.take(gauges(written=step * 25, read=step * 100), step * 0.5)
    speed = meter.speed(10.0)
    assert speed.now == pytest.approx(50)
    assert speed.prompt == pytest.approx(200)
    assert speed.history[-10:] == (50.0,) * 10
    assert speed.history[:50] == (0.0,) * 50


def test_history_contains_every_token_of_the_minute() -> None:
    meter = SpeedMeter()
    total = 0
    meter.take(gauges(), 100.0)
    for at, grown in ((100.7, 13), (103.2, 40), (103.9, 7), (110.0, 100)):
        total += grown
        meter.take(gauges(written=total), at)
    assert sum(meter.speed(111.0).history) == pytest.approx(total, abs=2)


def test_rate_falls_to_zero_without_tokens() -> None:
    meter = SpeedMeter()
    meter.take(gauges(), 0.0)
    meter.take(gauges(written=100), 1.0)
    assert meter.speed(1.0).now == pytest.approx(100)
    assert meter.speed(9.0).now == 0.0
    meter.take(gauges(written=110, running=0), 9.0)
    assert meter.speed(9.0).now == 0.0
    meter.take(gauges(written=110, running=0), 80.0)
    assert not any(meter.speed(80.0).history)


def test_restarted_worker_counts_from_zero() -> None:
    meter = SpeedMeter()
    meter.take(gauges(written=5000), 0.0)
    meter.take(gauges(written=30), 1.0)
    assert meter.speed(1.0).now == pytest.approx(30)


def test_models_are_summed_and_a_new_model_causes_no_jump() -> None:
    def both(a: int, b: int) -> GaugesEvent:
        return GaugesEvent(
            models=[
                LoadedModel(name="a", state=ModelState.READY, completion_tokens_total=a, waiting=1),
                LoadedModel(
                    name="b",
                    state=ModelState.READY,
                    completion_tokens_total=b,
                    running=2,
                    prefill_tokens=9,
                    prefilled_tokens=3,
                ),
            ]
        )

    meter = SpeedMeter()
    meter.take(gauges(written=10), 0.0)
    meter.take(both(1000, 9000), 1.0)
    assert meter.speed(1.0).now == 0.0
    meter.take(both(1020, 9030), 2.0)
    speed = meter.speed(2.0)
    assert sum(speed.history) == pytest.approx(50)
    assert (speed.running, speed.waiting) == (2, 1)
    assert (speed.prefilled_tokens, speed.prefill_tokens) == (3, 9)


def test_joules_per_token_cover_only_time_with_tokens() -> None:
    meter = SpeedMeter()
    meter.take(gauges(joules=0.0), 0.0)
    meter.take(gauges(joules=500.0), 10.0)
    meter.take(gauges(written=100, joules=700.0), 11.0)
    speed = meter.speed(11.0)
    assert speed.joules_per_token == pytest.approx(2.0)
    assert speed.watts == 9


def test_no_power_or_acceptance_without_meter_and_drafts() -> None:
    meter = SpeedMeter()
    assert meter.speed(0.0).acceptance is None
    meter.take(gauges(), 0.0)
    meter.take(gauges(written=10), 1.0)
    speed = meter.speed(1.0)
    assert speed.watts is None
    assert speed.joules_per_token is None
    assert speed.acceptance is None
    meter.take(gauges(written=20, drafts=(8, 6)), 2.0)
    assert meter.speed(2.0).acceptance == 0.75
