"""Energy and cost of local answers, attributed to the models that give them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from ingle.backends.base.model_info import Gauges

from .device_meters import DeviceMeters

log = logging.getLogger("ingle.daemon")


def energy_cost(joules: float, price: float) -> float:
    """Return the cost of energy at this price of a kWh."""
    return joules / 3.6e6 * price


@dataclass
class ModelEnergy:
    """Energy of one model's answers in joules, their seconds and their tokens."""

    joules: float = 0.0
    seconds: float = 0.0
    tokens: int = 0
    reported: int = 0
    """The tokens that its present process has reported."""


class AnswerEnergy:
    """Meters the machine while models answer; does nothing without a price.

    `price` is money per kWh. The energy includes what the devices would draw when idle; answers at
    the same time share it.
    """

    def __init__(
        self,
        meters: DeviceMeters,
        *,
        price: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.price = price
        self.meters = meters
        self._clock = clock
        # One thread, since drivers may be slow and readings must stay in order.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="energy")
        self._answering: Counter[str] = Counter()
        self._models: dict[str, ModelEnergy] = {}
        self._before: tuple[float, float | None] = 0.0, None

    @contextmanager
    def answering(self, model: str, gauges: Callable[[], Gauges]) -> Generator[None]:
        """Meter the machine for the duration of an answer of this model."""
        if not self.price:
            yield
            return
        self._reader.submit(self._observe, model, 1, _tokens(gauges()))
        try:
            yield
        finally:
            self._reader.submit(self._observe, model, -1, _tokens(gauges()))

    def cost(self, model: str, seconds: float) -> float | None:
        """Return the expected cost of an answer of this duration; None if not known."""
        if not self.price:
            return 0.0
        energy = self._models.get(model)
        watts = energy.joules / energy.seconds if energy and energy.joules else self.meters.watts
        return self._money(watts * seconds) if watts else None

    def costs(self) -> dict[str, tuple[int, float]]:
        """Return the tokens of each model's answers so far, and their cost."""
        return {
            name: (energy.tokens, self._money(energy.joules))
            for name, energy in tuple(self._models.items())
            if energy.joules and energy.tokens
        }

    def flush(self) -> None:
        """Wait until all answers that have ended are counted; blocks."""
        self._reader.submit(lambda: None).result()

    def _observe(self, model: str, change: int, tokens: int) -> None:
        """Add the energy since the last observation to the models that answered meanwhile."""
        now, joules = self._clock(), self._joules()
        then, before = self._before
        self._before = now, joules
        total = self._answering.total()
        for name, count in self._answering.items():
            if count and joules is not None and before is not None:
                energy = self._models[name]
                energy.joules += (joules - before) * count / total
                energy.seconds += (now - then) * count
        energy = self._models.setdefault(model, ModelEnergy())
        # A count that goes back is that of a new process.
        energy.tokens += tokens - energy.reported if tokens >= energy.reported else tokens
        energy.reported = tokens
        self._answering[model] += change

    def _joules(self) -> float | None:
        try:
            return self.meters.joules()
        except Exception:  # whatever a driver raises, answers go on
            log.warning("The power meters cannot be read", exc_info=True)
            return None

    def _money(self, joules: float) -> float:
        return energy_cost(joules, self.price)


def _tokens(gauges: Gauges) -> int:
    computed = gauges.prompt_tokens_total + gauges.completion_tokens_total
    return computed + gauges.cached_tokens_total
