"""`read_machine`: everything that this machine tells of itself."""

from __future__ import annotations

from pathlib import Path

import msgspec

from .apple_gpu import read_apple_gpu
from .machine import Cpu, Disk, Gpu, Machine
from .nvml import open_nvml
from .probe import Probe, probe_machine
from .read_cpu import read_cpu
from .read_disk import read_disk
from .read_memory import read_memory
from .read_software import read_software
from .sysfs_gpus import read_sysfs_gpus


def read_machine(models: Path, keep: Path | None = None, *, anew: bool = False) -> Machine:
    """The machine as it is now, with the disk of the folder `models`; blocking.

    What takes long to find out is kept in the file `keep`, and asked again with `anew`.
    """
    cpu = read_cpu()
    probe = probe_machine(cpu, keep, anew=anew)
    return Machine(
        cpu=with_bandwidth(cpu, probe),
        memory=read_memory(),
        gpus=read_gpus(cpu),
        disk=_disk(models),
        software=read_software(probe.llama_cpp),
    )


def read_gpus(cpu: Cpu) -> list[Gpu]:
    """The GPUs there are; NVIDIA's through their driver, and first, where that answers."""
    gpus: list[Gpu] = []
    reader = open_nvml()
    if reader is not None:
        try:
            gpus += reader.describe()
        finally:
            reader.close()
    memory = read_memory()
    return [
        *gpus,
        *read_apple_gpu(cpu.model, memory.total, memory.available),
        *(gpu for gpu in read_sysfs_gpus() if not gpus or gpu.vendor != "nvidia"),
    ]


def with_bandwidth(cpu: Cpu, probe: Probe) -> Cpu:
    """The processor with what was measured, unless its memory is known to be one kind."""
    if cpu.bandwidth is not None or not probe.bandwidth:
        return cpu
    return msgspec.structs.replace(
        cpu, bandwidth=round(probe.bandwidth), bandwidth_source="measured"
    )


def _disk(folder: Path) -> Disk | None:
    try:
        return read_disk(folder)
    except OSError:  # a drive that is not there any more
        return None
