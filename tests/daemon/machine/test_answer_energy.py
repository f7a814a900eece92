"""Energy and cost of local answers."""

from __future__ import annotations

import pytest

from ingle.backends.base.model_info import Gauges
from ingle.daemon.client.daemon_types import DeviceGauges
from ingle.daemon.machine.answer_energy import AnswerEnergy
from ingle.daemon.machine.device_meters import DeviceMeters

KWH = 3_600_000.0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def energy_of(clock: Clock, *, price: float = 0.5, watts: float = 360.0) -> AnswerEnergy:
    meters = DeviceMeters(open_gpus=lambda: None, clock=clock, watts=watts)
    return AnswerEnergy(meters, price=price, clock=clock)


def tokens(count: int) -> Gauges:
    return Gauges(prompt_tokens_total=count)


def test_concurrent_answers_share_the_energy(clock: Clock) -> None:
    energy = energy_of(clock)
    with energy.answering("a", lambda: tokens(30 if clock.now > 100 else 0)):
        energy.flush()
        clock.now = 110.0  # a alone: 3,600 J
        with energy.answering("b", lambda: tokens(10 if clock.now > 110 else 0)):
            energy.flush()
            clock.now = 130.0  # both: 3,600 J each
        energy.flush()
    energy.flush()
    clock.now = 500.0  # nothing answers
    with energy.answering("a", lambda: tokens(30)):
        energy.flush()
    energy.flush()
    assert energy.costs() == {
        "a": (30, pytest.approx(7200 / KWH * 0.5)),
        "b": (10, pytest.approx(3600 / KWH * 0.5)),
    }
    # An answer of b drew half of the 360 W.
    assert energy.cost("b", 10.0) == pytest.approx(1800 / KWH * 0.5)
    # Without an answer yet, all of them are expected.
    assert energy.cost("c", 10.0) == pytest.approx(3600 / KWH * 0.5)


def test_tokens_of_a_new_process_are_added(clock: Clock) -> None:
    energy = energy_of(clock)
    for total in (50, 20, 25):  # restarted before 20
        with energy.answering("a", lambda total=total: tokens(total)):
            energy.flush()
            clock.now += 1.0
        energy.flush()
    assert energy.costs()["a"][0] == 75


def test_cost_without_price_or_meter(clock: Clock) -> None:
    free = energy_of(clock, price=0.0)
    with free.answering("a", lambda: tokens(5)):
        clock.now += 1.0
    free.flush()
    assert (free.cost("a", 10.0), free.costs()) == (0.0, {})
    unknown = AnswerEnergy(NoMeters(), price=0.5, clock=clock)
    with unknown.answering("a", lambda: tokens(5)):
        clock.now += 1.0
    unknown.flush()
    assert (unknown.cost("a", 10.0), unknown.costs()) == (None, {})


class NoMeters(DeviceMeters):
    """A machine without power meters, whatever this one has."""

    def read(self) -> list[DeviceGauges]:
        return []
