"""Reads the complete inventory of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from .machine import Cpu, Disk, Gpu, Machine
from .nvml import describe_nvidia_gpus
from .other_gpus import read_apple_gpu, read_sysfs_gpus
from .probe import Probe, probe_machine
from .read_cpu import read_cpu
from .read_disk import read_disk
from .read_memory import read_memory
from .read_software import read_software


def read_machine(
    models: Path,
    keep: Path | None = None,
    *,
    anew: bool = False,
    import_path: Sequence[str] = (),
) -> Machine:
    """Return the machine as it is now, with the disk of the folder `models`; blocking.

    Slow probes are cached in the file `keep`, and repeated with `anew`. Engines are looked for in
    the folders of `import_path`, and in ingle's own environment.
    """
    cpu = read_cpu()
    probe = probe_machine(cpu, keep, anew=anew, import_path=import_path)
    return Machine(
        cpu=with_bandwidth(cpu, probe),
        memory=read_memory(),
        gpus=read_gpus(cpu),
        disk=_disk(models),
        software=read_software(probe.llama_cpp, import_path),
    )


def read_gpus(cpu: Cpu) -> list[Gpu]:
    """Return all GPUs, NVIDIA's first and through their driver if it works."""
    nvidia, memory = describe_nvidia_gpus(), read_memory()
    return [
        *nvidia,
        *read_apple_gpu(cpu.model, memory.total, memory.available),
        *(gpu for gpu in read_sysfs_gpus() if not nvidia or gpu.vendor != "nvidia"),
    ]


def with_bandwidth(cpu: Cpu, probe: Probe) -> Cpu:
    """Return the processor with the measured bandwidth, unless its memory type is known."""
    if cpu.bandwidth is not None or not probe.bandwidth:
        return cpu
    return msgspec.structs.replace(
        cpu, bandwidth=round(probe.bandwidth), bandwidth_source="measured"
    )


def _disk(folder: Path) -> Disk | None:
    try:
        return read_disk(folder)
    except OSError:  # a drive that has been removed
        return None
