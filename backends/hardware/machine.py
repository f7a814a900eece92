"""Data types of the hardware inventory: GPUs, CPU, memory, disk, software."""

from __future__ import annotations

from typing import Literal

import msgspec

GpuVendor = Literal["nvidia", "amd", "intel", "apple", "other"]
DiskKind = Literal["ssd", "hdd", "network", "memory", "unknown"]


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds GPU memory; `memory` is null if the driver does not report it."""

    pid: int
    name: str = ""
    memory: int | None = None


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU; bytes, bytes per second and watts, null if unknown.

    `unified`: its memory is the host's, of which it may take `memory_total`. `cuda` is the newest
    CUDA version that its driver supports, `cores` counts the vendor's units.
    """

    name: str
    vendor: GpuVendor
    uuid: str = ""
    driver: str = ""
    cuda: str = ""
    memory_total: int | None = None
    memory_free: int | None = None
    unified: bool = False
    compute_capability: tuple[int, int] | None = None
    cores: int = 0
    bandwidth: float | None = None
    power_limit: float | None = None
    watts: float | None = None
    processes: list[GpuProcess] = []


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU: cores and threads that this process may use, and instruction sets.

    `compute_threads` is what a model gets; `bandwidth` is the memory's in bytes per second, and
    `bandwidth_source` its origin.
    """

    model: str = ""
    architecture: str = ""
    cores: int = 1
    threads: int = 1
    compute_threads: int = 1
    quota: float | None = None
    instruction_sets: list[str] = []
    bandwidth: float | None = None
    bandwidth_source: Literal["", "measured", "known"] = ""


class HostMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Host memory in bytes; `limit` is a control group's, of which `limit_used` are in use.

    `available` can be allocated without swapping, regardless of the limit.
    """

    total: int
    available: int
    swap_total: int = 0
    swap_used: int = 0
    limit: int | None = None
    limit_used: int = 0

    @property
    def usable_total(self) -> int:
        """Return the most bytes this process can ever use."""
        return self.total if self.limit is None else min(self.total, self.limit)

    @property
    def usable(self) -> int:
        """Return the bytes this process can use now."""
        if self.limit is None:
            return self.available
        return min(self.available, max(0, self.limit - self.limit_used))


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The disk that holds the models folder; sizes in bytes."""

    folder: str
    total: int = 0
    free: int = 0
    filesystem: str = ""
    kind: DiskKind = "unknown"


class TorchBuild(msgspec.Struct, frozen=True, kw_only=True):
    """The installed PyTorch; `cuda` is the CUDA version it was built for, "" for none."""

    version: str
    cuda: str = ""


class LlamaBuild(msgspec.Struct, frozen=True, kw_only=True):
    """The installed llama-cpp-python; `backends` are ggml's names, such as "CPU" and "CUDA".

    `error` says why it cannot be loaded.
    """

    version: str
    backends: list[str] = []
    gpu_offload: bool = False
    error: str = ""


class Software(msgspec.Struct, frozen=True, kw_only=True):
    """Operating system, Python and engines; `system` is Linux, Darwin or Windows.

    `container` names the container runtime, "" for none. `tools` are the installed programs for
    building engines.
    """

    system: str = ""
    release: str = ""
    python: str = ""
    ingle: str = ""
    wsl: bool = False
    container: str = ""
    tools: list[str] = []
    torch: TorchBuild | None = None
    llama_cpp: LlamaBuild | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One machine at one moment."""

    cpu: Cpu
    memory: HostMemory
    gpus: list[Gpu] = []
    disk: Disk | None = None
    software: Software = Software()
