"""The memory, devices and speeds that a machine offers to a model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingle.kernels.formats.weight_format import OLDEST_FP8_GPU
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.fit.process_overhead import repacked_types

from ..cuda.kernel_coverage import OLDEST_GPU
from ..hardware.machine import Gpu, HostMemory, Machine
from ..packages.engine_packages import EnginePackages
from ..registry.cuda_availability import loading_gpu
from ..registry.engines import DEFAULT_ENGINE
from ..selection.model_placement import MemoryBudget
from .device_rates import DeviceRates, cpu_rates, gpu_rates

_LARGEST_SHARE = 2**30
_LARGEST_GPU_SHARE = 2**29
_LARGEST_USE = 4 * 2**30
_LARGEST_GPU_USE = 2**30
_USUAL = 0.75
"""Share of the usual memory; with less, what is free counts, since a large program runs."""


@dataclass(frozen=True, kw_only=True)
class MachineCapacity:
    """Memory and rates that a machine offers to one model.

    `budget` is the memory that models can use, `free` what of it is free now. `has_own` says
    whether ingle's engine can use the GPU, `has_torch` whether it can run at all. Rates are None
    for unknown devices.
    """

    budget: MemoryBudget
    cpu: DeviceRates | None
    gpu: DeviceRates | None
    free: MemoryNeeds
    has_own: bool = False
    has_torch: bool = False
    llama_works: bool = True

    @property
    def uses_gpu(self) -> bool:
        """Return whether some engine can use the GPU."""
        return bool(self.budget.gpu_name) and (self.has_own or self.budget.llama_offloads)

    def after_installing(self, packages: EnginePackages) -> MachineCapacity:
        """Return the capacity with an engine in addition that can use the GPU."""
        if packages.engine == DEFAULT_ENGINE:
            return replace(self, budget=replace(self.budget, llama_offloads=True))
        return replace(self, has_own=True, has_torch=True)


def capacity_of(
    machine: Machine,
    *,
    visible: str | None = None,
    own: frozenset[int] = frozenset(),
    own_memory: int = 0,
    assume_idle: bool = False,
    assume_engines: bool = False,
) -> MachineCapacity:
    """Return the machine's capacity for one model alone.

    Memory held by the processes in `own` counts as free, as do `own_memory` bytes of host memory,
    since loaded models can be evicted. `assume_idle` means the machine with nothing else running,
    `assume_engines` with engines that can use its GPU. Small changes of the free memory change
    nothing.
    """
    # GPUs that do not report their memory are skipped.
    gpu = loading_gpu([gpu for gpu in machine.gpus if gpu.memory_total], visible)
    software = machine.software
    torch, build = software.torch, software.llama_cpp
    memory = machine.memory
    free = MemoryNeeds(
        max(0, min(memory.usable_total, memory.usable + own_memory) - _share(memory)),
        0 if gpu is None else _gpu_room(gpu, own),
    )
    has_torch = torch is not None or (assume_engines and gpu is not None)
    has_own = (gpu is not None and _runs_own(gpu, machine)) or (assume_engines and _capable(gpu))
    # A missing build is installed before the first answer, and uses a Mac's GPU.
    offloads = build.gpu_offload if build else gpu is not None and gpu.vendor == "apple"
    budget = MemoryBudget(
        host=_room(memory.usable_total, _share(memory), free.host, _LARGEST_USE, assume_idle),
        gpu=0 if gpu is None else _gpu_budget(gpu, free.gpu, assume_idle),
        gpu_name="" if gpu is None else gpu.name,
        llama_offloads=gpu is not None and (offloads or assume_engines),
        unified=gpu is not None and gpu.unified,
        repacked=repacked_types(machine.cpu.instruction_sets),
        has_fp8=_capable(gpu, OLDEST_FP8_GPU),
    )
    return MachineCapacity(
        budget=budget,
        cpu=cpu_rates(machine.cpu),
        gpu=None if gpu is None else gpu_rates(gpu, machine.cpu.bandwidth),
        free=free,
        has_own=has_own,
        has_torch=has_torch,
        llama_works=build is None or not build.error,  # a missing one is installed by itself
    )


def corrected(
    capacity: MachineCapacity, factor: float, source: str, *, on_gpu: bool
) -> MachineCapacity:
    """Return the capacity with rates scaled to agree with a measurement."""
    rates = capacity.gpu if on_gpu else capacity.cpu
    if rates is None:
        return capacity
    better = replace(rates, factor=factor, source=f"{rates.source}; {source}")
    return replace(capacity, gpu=better) if on_gpu else replace(capacity, cpu=better)


def _capable(gpu: Gpu | None, oldest: tuple[int, int] = OLDEST_GPU) -> bool:
    if gpu is None or gpu.vendor != "nvidia":
        return False
    return (gpu.compute_capability or (0, 0)) >= oldest


def _runs_own(gpu: Gpu, machine: Machine) -> bool:
    """Return whether PyTorch is installed, built for CUDA, and supported by the driver."""
    torch = machine.software.torch
    if torch is None or not torch.cuda or not _capable(gpu):
        return False
    return not gpu.cuda or int(gpu.cuda.split(".")[0]) >= int(torch.cuda.split(".")[0])


def _room(total: int, share: int, free: int, largest_use: int, idle: bool) -> int:
    """Return the bytes for models: of an idle machine, the usual ones, or those that are free.

    Other programs usually use a quarter, `largest_use` bytes at most.
    """
    if idle:
        return max(0, total - share)
    usual = total - share - min(total // 4, largest_use)
    return usual if free >= _USUAL * usual else free


def _gpu_budget(gpu: Gpu, free: int, idle: bool) -> int:
    use = _LARGEST_USE if gpu.unified else _LARGEST_GPU_USE
    return _room(gpu.memory_total or 0, _gpu_share(gpu), free, use, idle)


def _gpu_room(gpu: Gpu, own: frozenset[int]) -> int:
    ours = sum(process.memory or 0 for process in gpu.processes if process.pid in own)
    free = min(gpu.memory_total or 0, (gpu.memory_free or 0) + ours)
    return max(0, free - _gpu_share(gpu))


def _gpu_share(gpu: Gpu) -> int:
    return 0 if gpu.unified else min((gpu.memory_total or 0) // 20, _LARGEST_GPU_SHARE)


def _share(memory: HostMemory) -> int:
    """Return the share reserved for the desktop, as the daemon reserves it."""
    return min(memory.usable_total // 20, _LARGEST_SHARE)
