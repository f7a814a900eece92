"""Recorded system states for the doctor tests."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from ingle.daemon.doctor.system_state import SystemState

ReadSituation = Callable[[str], SystemState]


@pytest.fixture
def read_recorded_state(machines: dict[str, bytes]) -> ReadSituation:
    """Load the recorded system state of a machine by name."""

    def read(name: str) -> SystemState:
        return msgspec.toml.decode(machines[name], type=SystemState)

    return read
