"""Recorded machines, as the doctor sees them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from ingle.daemon.doctor.system_state import SystemState

ReadSituation = Callable[[str], SystemState]


@pytest.fixture
def situation_of(machines: dict[str, bytes]) -> ReadSituation:
    """The situation on a machine, by its name."""

    def read(name: str) -> SystemState:
        return msgspec.toml.decode(machines[name], type=SystemState)

    return read
