"""Recorded machines, as the doctor sees them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from ingle.daemon.doctor.system_state import Situation

ReadSituation = Callable[[str], Situation]


@pytest.fixture
def situation_of(machines: dict[str, bytes]) -> ReadSituation:
    """The situation on a machine, by its name."""

    def read(name: str) -> Situation:
        return msgspec.toml.decode(machines[name], type=Situation)

    return read
