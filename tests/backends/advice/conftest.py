"""Recorded machines, and candidate models of many sizes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from ingle.backends.advice.advice_request import Candidate
from ingle.backends.advice.typical_model import typical_costs
from ingle.backends.hardware.machine import Machine

ReadMachine = Callable[[str], Machine]

SIZES = {
    "tiny:0.1b": (0.135, 0.098),
    "small:0.6b": (0.6, 0.40),
    "small:1.7b": (1.7, 1.1),
    "medium:4b": (4.0, 2.5),
    "medium:8b": (8.2, 5.03),
    "large:14b": (14.8, 9.0),
    "large:32b": (32.8, 19.8),
    "huge:70b": (70.6, 42.5),
    "coder:1.5b": (1.78, 1.12),
    "coder:7b": (7.6, 4.68),
}
"""Billions of parameters, and gigabytes as Q4_K_M, typical of current models."""


class _RecordedState(msgspec.Struct):
    machine: Machine


@pytest.fixture
def read_recorded_machine(machines: dict[str, bytes]) -> ReadMachine:
    """Load a recorded machine by name."""

    def read(name: str) -> Machine:
        return msgspec.toml.decode(machines[name], type=_RecordedState).machine

    return read


@pytest.fixture(scope="session")
def models() -> list[Candidate]:
    """A catalog of all sizes, with one model for embeddings."""
    found = [
        Candidate(
            name=name,
            costs=typical_costs(
                int(billions * 1e9), int(gigabytes * 1e9), 32768, tensor_type="Q4_K"
            ),
            quantization="Q4_K_M",
            codes=name.startswith("coder"),
            exact=False,
        )
        for name, (billions, gigabytes) in SIZES.items()
    ]
    embedder = typical_costs(137_000_000, 274_000_000, 2048, embeds=True)
    vectors = Candidate(name="vectors", costs=embedder, embeds=True, chat=False, runs_on_own=False)
    return [*found, vectors]
