"""The memory, devices and speeds that a machine offers to a model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingle.models.fit.process_overhead import repacked_types

from ..cuda.kernel_coverage import OLDEST_GPU
from ..hardware.machine import Gpu, Machine, Memory
from ..registry.cuda_availability import first_visible
from ..selection.model_placement import MemoryBudget
from .device_rates import DeviceRates, cpu_rates, gpu_rates

_LARGEST_SHARE = 2**30
_LARGEST_GPU_SHARE = 2**29


@dataclass(frozen=True, kw_only=True)
class MachineCapacity:
    """`room` is what models can have; `has_own` is whether ingle's engine can use the GPU.

    `has_torch` is whether it can run at all. Rates are None for devices that nobody knows.
    """

    room: MemoryBudget
    cpu: DeviceRates | None
    gpu: DeviceRates | None
    has_own: bool = False
    has_torch: bool = False
    llama_works: bool = True

    @property
    def uses_gpu(self) -> bool:
        """Whether some engine can use the GPU there is."""
        return bool(self.room.gpu_name) and (self.has_own or self.room.llama_offloads)


def site_of(
    machine: Machine,
    *,
    visible: str | None = None,
    own: frozenset[int] = frozenset(),
    own_memory: int = 0,
    emptied: bool = False,
    mended: bool = False,
) -> MachineCapacity:
    """The machine as it is, for one model alone.

    What the processes in `own` hold counts as free, with `own_memory` bytes of the machine's
    memory, since they are models that make room. `emptied` is the machine with nothing else on it,
    `mended` with engines that can use its GPU.
    """
    gpu = _gpu(machine.gpus, visible)
    software = machine.software
    torch, build = software.torch, software.llama_cpp
    memory = machine.memory
    free = memory.usable_total if emptied else min(memory.usable_total, memory.usable + own_memory)
    has_torch = torch is not None or (mended and gpu is not None)
    has_own = (gpu is not None and _runs_own(gpu, machine)) or (mended and _capable(gpu))
    offloads = build is not None and build.gpu_offload
    room = MemoryBudget(
        host=max(0, free - _share(memory)),
        gpu=0 if gpu is None else _gpu_room(gpu, own, emptied),
        gpu_name="" if gpu is None else gpu.name,
        llama_offloads=gpu is not None and (offloads or mended),
        unified=gpu is not None and gpu.unified,
        repacked=repacked_types(machine.cpu.instruction_sets),
    )
    return MachineCapacity(
        room=room,
        cpu=cpu_rates(machine.cpu),
        gpu=None if gpu is None else gpu_rates(gpu, machine.cpu.bandwidth),
        has_own=has_own,
        has_torch=has_torch,
        llama_works=build is not None and not build.error,
    )


def corrected(
    site: MachineCapacity, factor: float, source: str, *, on_gpu: bool
) -> MachineCapacity:
    """With rates that agree with what was measured."""
    rates = site.gpu if on_gpu else site.cpu
    if rates is None:
        return site
    better = rates.corrected(factor, source)
    return replace(site, gpu=better) if on_gpu else replace(site, cpu=better)


def _gpu(gpus: list[Gpu], visible: str | None) -> Gpu | None:
    """The GPU that models are loaded on; one that tells nothing of its memory is of no use."""
    nvidia = [gpu for gpu in gpus if gpu.vendor == "nvidia" and gpu.memory_total]
    if nvidia:
        return first_visible(nvidia, visible)
    return next((gpu for gpu in gpus if gpu.vendor != "nvidia" and gpu.memory_total), None)


def _capable(gpu: Gpu | None) -> bool:
    return gpu is not None and gpu.vendor == "nvidia" and _capability(gpu) >= OLDEST_GPU


def _capability(gpu: Gpu) -> tuple[int, int]:
    return gpu.compute_capability or (0, 0)


def _runs_own(gpu: Gpu, machine: Machine) -> bool:
    """PyTorch is there, was built for CUDA, and the driver is new enough for it."""
    torch = machine.software.torch
    if torch is None or not torch.cuda or not _capable(gpu):
        return False
    return not gpu.cuda or int(gpu.cuda.split(".")[0]) >= int(torch.cuda.split(".")[0])


def _gpu_room(gpu: Gpu, own: frozenset[int], emptied: bool) -> int:
    total = gpu.memory_total or 0
    ours = sum(process.memory or 0 for process in gpu.processes if process.pid in own)
    free = total if emptied else min(total, (gpu.memory_free or 0) + ours)
    return max(0, free - (0 if gpu.unified else min(total // 20, _LARGEST_GPU_SHARE)))


def _share(memory: Memory) -> int:
    """What stays for the desktop, as the daemon leaves it."""
    return min(memory.usable_total // 20, _LARGEST_SHARE)
