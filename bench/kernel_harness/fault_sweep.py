"""Tries a fault at each point of a run on a simulated GPU, in a child process forked there."""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec
from kernel_harness.simulated_gpu import Fault, Kind, SimulatedGPU

_SECONDS = 600.0
"""A child that takes longer hangs."""

Faults = Callable[[Kind, int], Sequence[Fault]]
"""The faults to try at a point."""


class Ending(msgspec.Struct):
    """How a run ended: what was streamed, the error that ended it, whether it waits forever."""

    streamed: list[list[int]]
    error: str = ""
    message: str = ""
    trace: str = ""
    waits: bool = False


@dataclass(frozen=True)
class Trial:
    """A fault at a point, and how the run ended with it; None if it did not."""

    kind: Kind
    number: int
    name: str
    fault: Fault
    ending: Ending | None
    seconds: float


@dataclass
class FaultSweep:
    """Runs `work`, which appends to `streamed`; `trials` has one for each fault at each point."""

    gpu: SimulatedGPU
    faults: Faults
    streamed: list[list[int]]
    trials: list[Trial] = field(default_factory=list[Trial])
    _report: int | None = None

    def run(self, work: Callable[[], object]) -> None:
        """Run to the end without a fault here, and with one in each child."""
        self.gpu.points.clear()
        self.gpu.plan = self._plan
        self.gpu.on_hang = self._waits
        try:
            work()
        except BaseException as error:
            if self._report is None:
                raise
            self._end(type(error).__name__, str(error), traceback.format_exc())
        finally:
            if self._report is not None:
                self._end()
        self.gpu.plan = lambda kind, number, name: None

    def _plan(self, kind: Kind, number: int, name: str) -> Fault | None:
        if self._report is not None:
            return None
        for fault in self.faults(kind, number):
            began = time.monotonic()
            reader, writer = os.pipe()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # other threads are idle
                child = os.fork()
            if not child:
                os.close(reader)
                self._report = writer
                return fault
            os.close(writer)
            ending = _read_ending(reader)
            if ending is None:
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            seconds = time.monotonic() - began
            self.trials.append(Trial(kind, number, name, fault, ending, seconds))
        return None

    def _waits(self) -> None:
        self._end(waits=True)

    def _end(
        self, error: str = "", message: str = "", trace: str = "", *, waits: bool = False
    ) -> NoReturn:
        assert self._report is not None
        ending = Ending(self.streamed, error, message, trace, waits)
        with os.fdopen(self._report, "wb") as file:
            file.write(msgspec.json.encode(ending))
        os._exit(0)


def _read_ending(reader: int) -> Ending | None:
    """What a child reports; None if it does not within its time, or dies."""
    found, until = b"", time.monotonic() + _SECONDS
    try:
        while select.select([reader], [], [], max(0.0, until - time.monotonic()))[0]:
            part = os.read(reader, 1 << 16)
            if not part:
                return msgspec.json.decode(found, type=Ending) if found else None
            found += part
        return None
    finally:
        os.close(reader)
