"""Reads the processor's name, cores and instruction sets."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from .cpu_inventory import read_inventory
from .machine import Cpu
from .sysctl import sysctl_number, sysctl_text
from .text_files import read_text
from .thread_plan import CpuInventory, plan_threads

_LINUX_FLAGS = {
    "avx": "AVX",
    "avx2": "AVX2",
    "fma": "FMA",
    "f16c": "F16C",
    "avx512f": "AVX-512",
    "avx_vnni": "VNNI",
    "avx512_vnni": "VNNI",
    "avx512_bf16": "BF16",
    "amx_int8": "AMX",
    "asimd": "NEON",
    "neon": "NEON",
    "asimddp": "DOTPROD",
    "i8mm": "I8MM",
    "bf16": "BF16",
    "sve": "SVE",
    "sme": "SME",
}
_APPLE_FLAGS = {
    "hw.optional.avx1_0": "AVX",
    "hw.optional.avx2_0": "AVX2",
    "hw.optional.fma": "FMA",
    "hw.optional.f16c": "F16C",
    "hw.optional.avx512f": "AVX-512",
    "hw.optional.neon": "NEON",
    "hw.optional.arm.FEAT_DotProd": "DOTPROD",
    "hw.optional.arm.FEAT_I8MM": "I8MM",
    "hw.optional.arm.FEAT_BF16": "BF16",
    "hw.optional.arm.FEAT_SME": "SME",
}
_WINDOWS_FLAGS = {39: "AVX", 40: "AVX2", 41: "AVX-512", 19: "NEON", 43: "DOTPROD"}
"""Numbers of `IsProcessorFeaturePresent`."""
_RASPBERRY_PI_5 = 4.267e9 * 4
_KNOWN_BANDWIDTH = {"Raspberry Pi 5": _RASPBERRY_PI_5, "Raspberry Pi 500": _RASPBERRY_PI_5}
"""Bytes per second of machines whose memory never varies: LPDDR4X-4267, 32 bits."""


def read_cpu(root: Path = Path("/")) -> Cpu:
    """Return the processor of this machine, with the cores that this process may use."""
    architecture = platform.machine()
    if sys.platform == "linux":
        model, instruction_sets = linux_processor(root)
    elif sys.platform == "darwin":
        model = sysctl_text("machdep.cpu.brand_string")
        instruction_sets = apple_instruction_sets(sysctl_number)
    else:
        model, instruction_sets = platform.processor(), _windows_instruction_sets()
    return describe_cpu(read_inventory(), model, architecture, instruction_sets)


def describe_cpu(
    inventory: CpuInventory, model: str, architecture: str, instruction_sets: list[str]
) -> Cpu:
    """Summarise an inventory for reports."""
    known = next((rate for name, rate in _KNOWN_BANDWIDTH.items() if name in model), None)
    return Cpu(
        model=model,
        architecture=architecture,
        cores=len({cpu.core for cpu in inventory.cpus}),
        threads=len(inventory.cpus),
        compute_threads=plan_threads(inventory).threads,
        quota=inventory.quota,
        instruction_sets=instruction_sets,
        bandwidth=known,
        bandwidth_source="known" if known else "",
    )


def linux_processor(root: Path) -> tuple[str, list[str]]:
    """Return name and instruction sets, from `/proc/cpuinfo` and the device tree below `root`."""
    fields: dict[str, str] = {}
    for line in read_text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    # Arm's processors have numbers; their boards have names.
    board = read_text(root / "proc/device-tree/model").strip("\0\n ")
    model = fields.get("model name") or board or fields.get("Model") or ""
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    return model, _ordered(_LINUX_FLAGS[flag] for flag in flags if flag in _LINUX_FLAGS)


def apple_instruction_sets(sysctl: Callable[[str], int | None]) -> list[str]:
    """Return the instruction sets among macOS's optional features."""
    return _ordered(name for key, name in _APPLE_FLAGS.items() if sysctl(key))


def _windows_instruction_sets() -> list[str]:
    if sys.platform != "win32":
        return []
    import ctypes

    present = ctypes.windll.kernel32.IsProcessorFeaturePresent
    return _ordered(name for number, name in _WINDOWS_FLAGS.items() if present(number))


def _ordered(names: Iterable[str]) -> list[str]:
    """Return the names in a fixed order, without duplicates."""
    found = set(names)
    return [name for name in dict.fromkeys(_LINUX_FLAGS.values()) if name in found]
