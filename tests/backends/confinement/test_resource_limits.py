"""Limits and capabilities of a process that serves a model."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

KEPT = {"DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2, "FOWNER": 3, "IPC_LOCK": 14, "SYS_NICE": 23}
STATES = """
from ingle.backends.confinement.resource_limits import limit_process
def effective():
    with open("/proc/thread-self/status") as status:
        return next(line.split()[1] for line in status if line.startswith("CapEff"))
before = effective()
limit_process(address_space=None)
print(before, effective())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only a root process of Linux has any"
)
def test_root_process_keeps_five_capabilities() -> None:
    code = [sys.executable, "-P", "-c", STATES]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    before, after = (int(mask, 16) for mask in done.stdout.split())
    assert after == before & sum(1 << number for number in KEPT.values())
    assert after < before
