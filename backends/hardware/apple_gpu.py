"""The GPU of an Apple chip, with unified memory."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

from .machine import Gpu
from .sysctl import sysctl_number

_GB = 1e9
_BANDWIDTH: dict[str, float | dict[int, float]] = {
    "M1": 68 * _GB,
    "M1 Pro": 200 * _GB,
    "M1 Max": 400 * _GB,
    "M1 Ultra": 800 * _GB,
    "M2": 100 * _GB,
    "M2 Pro": 200 * _GB,
    "M2 Max": 400 * _GB,
    "M2 Ultra": 800 * _GB,
    "M3": 100 * _GB,
    "M3 Pro": 150 * _GB,
    "M3 Max": {30: 300 * _GB, 40: 400 * _GB},
    "M3 Ultra": 819 * _GB,
    "M4": 120 * _GB,
    "M4 Pro": 273 * _GB,
    "M4 Max": {32: 410 * _GB, 40: 546 * _GB},
    "M5": 153 * _GB,
}
"""Memory bandwidth in bytes per second as Apple states it, by GPU cores if variants differ."""
_SMALL_MACHINE = 36 * 2**30
_SMALL_SHARE, _LARGE_SHARE = 2 / 3, 3 / 4
"""The share of memory that Metal recommends for resident data, unless a limit is set."""


def read_apple_gpu(chip: str, memory_total: int, memory_available: int) -> list[Gpu]:
    """Return the GPU of this Mac; none on Intel Macs."""
    if sys.platform != "darwin" or not chip.startswith("Apple "):
        return []
    return [apple_gpu(chip, _gpu_cores(), memory_total, memory_available, sysctl_number)]


def apple_gpu(
    chip: str,
    cores: int,
    memory_total: int,
    memory_available: int,
    sysctl: Callable[[str], int | None],
) -> Gpu:
    """Describe the GPU of a chip such as "Apple M3 Max"; memory in bytes."""
    share = _SMALL_SHARE if memory_total <= _SMALL_MACHINE else _LARGE_SHARE
    wired = (sysctl("iogpu.wired_limit_mb") or 0) * 2**20
    limit = wired or int(memory_total * share)
    return Gpu(
        name=chip,
        vendor="apple",
        memory_total=limit,
        memory_free=min(limit, memory_available),
        unified=True,
        cores=cores,
        bandwidth=apple_bandwidth(chip, cores),
    )


def apple_bandwidth(chip: str, cores: int) -> float | None:
    """Return the memory bandwidth of a chip in bytes per second; None for chips newer than the
    table.
    """
    known = _BANDWIDTH.get(chip.removeprefix("Apple "))
    if isinstance(known, dict):
        return known.get(cores, min(known.values()))
    return known


def parse_gpu_cores(registry: str) -> int:
    """Return the number of GPU cores in `ioreg`'s output for the accelerator; 0 if missing."""
    found = re.search(r'"gpu-core-count"\s*=\s*(\d+)', registry)
    return int(found[1]) if found else 0


def _gpu_cores() -> int:
    command = ["/usr/sbin/ioreg", "-r", "-d", "1", "-c", "AGXAccelerator"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return 0
    return parse_gpu_cores(done.stdout)
