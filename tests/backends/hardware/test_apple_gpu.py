"""Apple GPUs: memory limit, bandwidth and core count."""

from __future__ import annotations

import pytest

from ingle.backends.hardware.other_gpus import (
    apple_bandwidth,
    apple_gpu,
    parse_gpu_cores,
    read_apple_gpu,
)

GIB = 2**30
REGISTRY = """\
+-o AGXAcceleratorG15X  <class AGXAcceleratorG15X, id 0x100000421, registered, matched, active>
    {
      "gpu-core-count" = 40
      "model" = "Apple M3 Max"
    }
"""


def test_gpu_memory_is_two_thirds_on_small_machines() -> None:
    gpu = apple_gpu("Apple M2", 8, 8 * GIB, 5 * GIB, dict[str, int]().get)
    assert gpu.unified
    assert gpu.memory_total == int(8 * GIB * 2 / 3)
    assert gpu.memory_free == 5 * GIB
    assert gpu.bandwidth == 100e9


def test_wired_limit_overrides_the_gpu_memory() -> None:
    sysctl = {"iogpu.wired_limit_mb": 120_000}
    gpu = apple_gpu("Apple M3 Max", 40, 128 * GIB, 125 * GIB, sysctl.get)
    assert gpu.memory_total == gpu.memory_free == 120_000 * 2**20


@pytest.mark.parametrize(
    ("chip", "cores", "bandwidth"),
    [
        ("Apple M1", 8, 68e9),
        ("Apple M3 Max", 30, 300e9),
        ("Apple M3 Max", 40, 400e9),
        ("Apple M4 Max", 0, 410e9),
        ("Apple M99", 512, None),
    ],
)
def test_apple_bandwidth(chip: str, cores: int, bandwidth: float | None) -> None:
    assert apple_bandwidth(chip, cores) == bandwidth


def test_parse_gpu_cores() -> None:
    assert parse_gpu_cores(REGISTRY) == 40
    assert parse_gpu_cores("") == 0


@pytest.mark.slow
def test_other_machines_have_no_apple_gpu() -> None:
    assert read_apple_gpu("AMD EPYC", GIB, GIB) == []
