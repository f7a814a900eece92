"""Reads GPUs from Linux's sysfs and from Vulkan, even without a working vendor driver."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from .machine import Gpu, GpuVendor
from .text_files import read_number, read_text

_VENDORS: dict[str, GpuVendor] = {"0x1002": "amd", "0x8086": "intel", "0x10de": "nvidia"}
_NAMES = {"amd": "AMD GPU", "intel": "Intel GPU", "nvidia": "NVIDIA GPU"}
_INTEGRATED_VRAM = 4 * 2**30
"""AMD's integrated GPUs reserve at most this much of host memory."""


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
    if program is None:
        return {}
    try:
        done = subprocess.run(
            [program, "--summary"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return parse_vulkan_summary(done.stdout)
