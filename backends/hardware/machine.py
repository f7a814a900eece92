"""`Machine`: what one machine has, as far as it matters to models."""

from __future__ import annotations

from typing import Literal

import msgspec

GpuVendor = Literal["nvidia", "amd", "intel", "apple", "other"]
DiskKind = Literal["ssd", "hdd", "network", "memory", "unknown"]


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds memory of a GPU; `memory` is null where the driver does not tell."""

    pid: int
    name: str = ""
    memory: int | None = None


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One graphics processor; bytes, bytes a second and watts, null where nobody tells.

    `unified`: its memory is the machine's own, of which `memory_total` is what it may take.
    `cuda` is the newest CUDA that its driver runs, `cores` counts what its maker calls so.
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
    """The processor: cores and threads of it that this process may use, and what it can compute.

    `compute_threads` is what a model gets; `bandwidth` is of the memory, in bytes a second, and
    `bandwidth_source` says where it comes from.
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


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's memory in bytes; `limit` is a control group's, of which `limit_used` are gone.

    `available` is what programs can have without swapping, whatever the limit says.
    """

    total: int
    available: int
    swap_total: int = 0
    swap_used: int = 0
    limit: int | None = None
    limit_used: int = 0

    @property
    def usable_total(self) -> int:
        """What this process can have at most."""
        return self.total if self.limit is None else min(self.total, self.limit)

    @property
    def usable(self) -> int:
        """What this process can have now."""
        if self.limit is None:
            return self.available
        return min(self.available, max(0, self.limit - self.limit_used))


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """What holds the folder of the models; bytes."""

    folder: str
    total: int = 0
    free: int = 0
    filesystem: str = ""
    kind: DiskKind = "unknown"


class TorchBuild(msgspec.Struct, frozen=True, kw_only=True):
    """The installed PyTorch; `cuda` is the CUDA that it was built for, "" for none."""

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
    """System, Python and engines; `system` is Linux, Darwin or Windows.

    `container` names what this process is contained in, "" for nothing. ingle runs with the Python
    at `executable`, whose packages are installed with `installer`, and comes from the folder
    `checkout` where it is not from an index. `tools` are the programs there are of those that
    build engines.
    """

    system: str = ""
    release: str = ""
    python: str = ""
    ingle: str = ""
    wsl: bool = False
    container: str = ""
    executable: str = ""
    installer: Literal["pip", "uv"] = "pip"
    checkout: str = ""
    tools: list[str] = []
    torch: TorchBuild | None = None
    llama_cpp: LlamaBuild | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One machine at one moment."""

    cpu: Cpu
    memory: Memory
    gpus: list[Gpu] = []
    disk: Disk | None = None
    software: Software = Software()
