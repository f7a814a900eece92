"""GPUs read without NVIDIA's driver: from Linux's sysfs and Vulkan, and those of Apple's chips."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from .machine import Gpu, GpuVendor
from .sysctl import sysctl_number
from .text_files import read_number, read_text

_VENDORS: dict[str, GpuVendor] = {"0x1002": "amd", "0x8086": "intel", "0x10de": "nvidia"}
_NAMES = {"amd": "AMD GPU", "intel": "Intel GPU", "nvidia": "NVIDIA GPU"}
_INTEGRATED_VRAM = 4 * 2**30
"""AMD's integrated GPUs reserve at most this much of host memory."""


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


def read_sysfs_gpus(
    root: Path = Path("/"), vulkan_names: Callable[[], dict[str, str]] | None = None
) -> list[Gpu]:
    """Return the GPUs below `root`; `vulkan_names` maps sysfs's "vendor:device" to names."""
    cards = list(_cards(root))
    if not cards:
        return []
    names = (vulkan_names or _ask_vulkan)()
    return [_gpu(card, names) for card in cards]


def _cards(root: Path) -> Iterator[Path]:
    for card in sorted((root / "sys/class/drm").glob("card*")):
        device = card / "device"
        if re.fullmatch(r"card\d+", card.name) and read_text(device / "vendor") in _VENDORS:
            yield device


def _gpu(device: Path, names: dict[str, str]) -> Gpu:
    vendor, number = read_text(device / "vendor"), read_text(device / "device")
    maker = _VENDORS[vendor]
    memory = read_number(device / "mem_info_vram_total")
    shared = read_number(device / "mem_info_gtt_total")
    # Of Intel's GPUs, all but the Arc cards use host memory.
    unified = maker == "intel" and memory is None
    if memory is not None and memory <= _INTEGRATED_VRAM:
        unified = (shared or 0) > memory
    used = read_number(device / "mem_info_vram_used")
    if unified and memory is not None and shared is not None:
        memory += shared
        used = (used or 0) + (read_number(device / "mem_info_gtt_used") or 0)
    free = memory - used if memory is not None and used is not None else None
    driver = (device / "driver").resolve().name if (device / "driver").exists() else ""
    return Gpu(
        name=names.get(f"{vendor}:{number}") or f"{_NAMES[maker]} {number.removeprefix('0x')}",
        vendor=maker,
        driver=driver,
        memory_total=memory,
        memory_free=free,
        unified=unified,
    )


def parse_vulkan_summary(text: str) -> dict[str, str]:
    """Parse names by "vendor:device" from the output of `vulkaninfo --summary`."""
    names: dict[str, str] = {}
    for block in re.split(r"^GPU\d+:", text, flags=re.MULTILINE)[1:]:
        fields = dict(re.findall(r"^\s*(\w+)\s*=\s*(.+?)\s*$", block, re.MULTILINE))
        if {"vendorID", "deviceID", "deviceName"} <= fields.keys():
            vendor, device = int(fields["vendorID"], 16), int(fields["deviceID"], 16)
            names[f"{vendor:#06x}:{device:#06x}"] = fields["deviceName"]
    return names


def _ask_vulkan() -> dict[str, str]:
    program = shutil.which("vulkaninfo")
    return {} if program is None else parse_vulkan_summary(_output_of(program, "--summary"))


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
    return parse_gpu_cores(_output_of("/usr/sbin/ioreg", "-r", "-d", "1", "-c", "AGXAccelerator"))


def _output_of(*command: str) -> str:
    """Return the standard output of a program; "" if it cannot be run, or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
