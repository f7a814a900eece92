"""AMD, Intel and NVIDIA GPUs from sysfs and the Vulkan summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ingle.backends.hardware.other_gpus import parse_vulkan_summary, read_sysfs_gpus

WriteFiles = Callable[[Mapping[str, object]], Path]
GIB = 2**30

VULKAN = """\
Devices:
========
GPU0:
	apiVersion         = 1.3.274
	driverVersion      = 24.0.3
	vendorID           = 0x1002
	deviceID           = 0x744c
	deviceType         = PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
	deviceName         = AMD Radeon RX 7900 XTX (RADV NAVI31)
GPU1:
	apiVersion         = 1.3.274
	vendorID           = 0x10005
	deviceID           = 0x0000
	deviceName         = llvmpipe (LLVM 17.0.6, 256 bits)
"""


def card(number: int, **files: object) -> dict[str, object]:
    return {f"sys/class/drm/card{number}/device/{name}": value for name, value in files.items()}


def test_discrete_radeon(write_files: WriteFiles) -> None:
    files = card(
        1,
        vendor="0x1002",
        device="0x744c",
        mem_info_vram_total=24 * GIB,
        mem_info_vram_used=2 * GIB,
        mem_info_gtt_total=31 * GIB,
        mem_info_gtt_used=0,
    )
    root = write_files(files | {"sys/class/drm/card1-DP-1/device/vendor": "0x1002"})
    (gpu,) = read_sysfs_gpus(root, lambda: parse_vulkan_summary(VULKAN))
    assert gpu.name == "AMD Radeon RX 7900 XTX (RADV NAVI31)"
    assert (gpu.vendor, gpu.unified) == ("amd", False)
    assert (gpu.memory_total, gpu.memory_free) == (24 * GIB, 22 * GIB)


def test_integrated_radeon_has_unified_memory(write_files: WriteFiles) -> None:
    files = card(
        0,
        vendor="0x1002",
        device="0x1681",
        mem_info_vram_total=2 * GIB,
        mem_info_vram_used=GIB,
        mem_info_gtt_total=14 * GIB,
        mem_info_gtt_used=GIB,
    )
    (gpu,) = read_sysfs_gpus(write_files(files), dict)
    assert gpu.name == "AMD GPU 1681"
    assert gpu.unified
    assert (gpu.memory_total, gpu.memory_free) == (16 * GIB, 14 * GIB)


def test_intel_and_nvidia_gpus(write_files: WriteFiles) -> None:
    root = write_files(
        card(0, vendor="0x8086", device="0x46a6")
        | card(1, vendor="0x10de", device="0x2684")
        | card(2, vendor="0x1a03", device="0x2000")
    )
    intel, nvidia = read_sysfs_gpus(root, dict)
    assert (intel.vendor, intel.unified, intel.memory_total) == ("intel", True, None)
    assert (nvidia.name, nvidia.unified, nvidia.memory_total) == ("NVIDIA GPU 2684", False, None)


def test_parse_vulkan_summary() -> None:
    assert parse_vulkan_summary(VULKAN)["0x1002:0x744c"].startswith("AMD Radeon RX 7900 XTX")
    assert parse_vulkan_summary("Cannot create Vulkan instance.") == {}
