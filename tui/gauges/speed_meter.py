"""Computes rates from the daemon's token counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from ingle.daemon.client.daemon_types import GaugesEvent
from ingle.daemon.client.model_types import LoadedModel

WINDOW = 60
"""Seconds of history."""
NOW = 2.0
"""Seconds over which the present rate is averaged."""


class TokenRates(msgspec.Struct, frozen=True):
    """The speed of all models together; None if unknown.

    `history` is tokens per second for each of the last 60 s, the oldest first. `acceptance` is the
    share of draft tokens accepted, `joules_per_token` is averaged over busy time. Of the
    `prefill_tokens` of prompts that are being computed, those of other clients included,
    `prefilled_tokens` are done.
    """

    now: float = 0.0
    prompt: float = 0.0
    history: tuple[float, ...] = (0.0,) * WINDOW
    acceptance: float | None = None
    running: int = 0
    waiting: int = 0
    prefill_tokens: int = 0
    prefilled_tokens: int = 0
    watts: float | None = None
    joules_per_token: float | None = None


class _Step(msgspec.Struct, frozen=True):
    """The increase between two events, in seconds since the meter's clock began."""

    start: float
    end: float
    written: int
    read: int
    joules: float


class SpeedMeter:
    """Takes each `gauges` event with its arrival time; several models add up."""

    def __init__(self) -> None:
        self._last: tuple[float, GaugesEvent] | None = None
        self._steps: deque[_Step] = deque()

    def take(self, gauges: GaugesEvent, now: float) -> None:
        """Add an event; `now` is of a monotonic clock."""
        if self._last is not None and now > self._last[0]:
            then, before = self._last
            self._steps.append(_step(then, now, before, gauges))
        self._last = (now, gauges)
        while self._steps and self._steps[0].end <= now - WINDOW - NOW:
            self._steps.popleft()

    def speed(self, now: float) -> TokenRates:
        """Return the rates as of `now`."""
        models = [] if self._last is None else self._last[1].models
        # Events are rare in idle time: the increase since the previous one is no present rate.
        busy = any(model.running for model in models)
        drafted = sum(m.drafted_tokens_total for m in models)
        accepted = sum(m.accepted_tokens_total for m in models)
        devices = [] if self._last is None else self._last[1].devices
        watts = [d.watts for d in devices if d.watts is not None]
        return TokenRates(
            now=self._rate(now, lambda step: step.written) if busy else 0.0,
            prompt=self._rate(now, lambda step: step.read) if busy else 0.0,
            history=self._history(now),
            acceptance=accepted / drafted if drafted else None,
            running=sum(m.running for m in models),
            waiting=sum(m.waiting for m in models),
            prefill_tokens=sum(m.prefill_tokens for m in models),
            prefilled_tokens=sum(m.prefilled_tokens for m in models),
            watts=sum(watts) if watts else None,
            joules_per_token=self._joules_per_token(),
        )

    def _rate(self, now: float, count: Callable[[_Step], int]) -> float:
        """Return the rate over the last known moments, which may end shortly before `now`."""
        latest = [step for step in self._steps if step.end > now - NOW]
        seconds = sum(step.end - step.start for step in latest)
        return sum(map(count, latest)) / seconds if seconds else 0.0

    def _history(self, now: float) -> tuple[float, ...]:
        """Return the rate of each whole second, so that a graph moves by columns."""
        end = int(now)
        rates = [0.0] * WINDOW
        for step in self._steps:
            if not step.written:
                continue
            rate = step.written / (step.end - step.start)
            for second in range(int(step.start), int(step.end) + 1):
                place = second - (end - WINDOW)
                if 0 <= place < WINDOW:
                    covered = min(step.end, second + 1) - max(step.start, second)
                    rates[place] += rate * max(0.0, covered)
        return tuple(round(rate, 1) for rate in rates)

    def _joules_per_token(self) -> float | None:
        busy = [step for step in self._steps if step.written and step.joules > 0]
        written = sum(step.written for step in busy)
        return sum(step.joules for step in busy) / written if written else None


def _step(then: float, now: float, before: GaugesEvent, after: GaugesEvent) -> _Step:
    old = {model.name: model for model in before.models}
    spent = sum(
        new.joules - last.joules
        for last, new in zip(before.devices, after.devices, strict=False)
        if new.name == last.name and new.joules is not None and last.joules is not None
    )
    return _Step(
        then,
        now,
        sum(_grown(old.get(m.name), m, lambda x: x.completion_tokens_total) for m in after.models),
        sum(_grown(old.get(m.name), m, lambda x: x.prompt_tokens_total) for m in after.models),
        max(0.0, spent),
    )


def _grown(
    before: LoadedModel | None, after: LoadedModel, count: Callable[[LoadedModel], int]
) -> int:
    """Return how much a counter grew; one reset with its process counts from 0."""
    if before is None:
        return 0
    grown = count(after) - count(before)
    return grown if grown >= 0 else count(after)
