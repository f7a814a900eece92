"""Facts about installed engines and the GPU on which the choice of engine depends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ingle.models.fit.process_overhead import repacked_types

from ..hardware.machine import Cpu, Gpu
from ..hardware.probe import probe_machine
from ..hardware.read_cpu import read_cpu
from ..hardware.read_machine import read_gpus
from ..packages.engine_packages import EnginePackages
from ..registry.cuda_availability import CudaAvailability, loading_gpu
from ..registry.engines import DEFAULT_ENGINE


@dataclass(frozen=True, kw_only=True)
class EngineFacts:
    """The state of ingle's own engine, the GPU that models are loaded on, and llama.cpp's build.

    `knows_free_memory` means that the GPU's free memory can be read at any time. A `unified` GPU
    uses host memory, of which it may take `gpu_total` bytes. Speeds are
    predicted from what is known of the processor and the GPU.
    """

    own: CudaAvailability
    gpu_name: str = ""
    unified: bool = False
    gpu_total: int = 0
    knows_free_memory: bool = True
    llama_offloads: bool = False
    repacked: frozenset[str] = frozenset()
    cpu: Cpu | None = None
    gpu: Gpu | None = None

    @property
    def uses_gpu(self) -> bool:
        """Whether some installed engine can use the GPU."""
        return self.llama_offloads or (self.own.has_torch and self.own.gpu_memory > 0)

    def after_installing(self, packages: EnginePackages) -> EngineFacts:
        """Return the facts with PyTorch, or with a llama.cpp for the GPU, in addition."""
        if packages.engine == DEFAULT_ENGINE:
            return replace(self, llama_offloads=True)
        return replace(self, own=replace(self.own, has_torch=True))

    @classmethod
    def find(cls, keep: Path | None = None, import_path: Sequence[str] = ()) -> EngineFacts:
        """Inspect the machine; blocking. How llama.cpp was built is cached in the file `keep`.

        Engines are looked for in the folders of `import_path` too.
        Without a GPU the build makes no difference and is not inspected. A missing one is installed
        before the first answer, and uses a Mac's GPU.
        """
        cpu, own = read_cpu(), CudaAvailability.find(import_path)
        gpu = loading_gpu(read_gpus(cpu), os.environ.get("CUDA_VISIBLE_DEVICES"))
        llama = None if gpu is None else probe_machine(cpu, keep, import_path=import_path).llama_cpp
        return cls(
            own=own,
            gpu_name="" if gpu is None else gpu.name or f"{gpu.vendor} GPU",
            unified=gpu is not None and gpu.unified,
            gpu_total=(gpu.memory_total or 0) if gpu is not None else 0,
            knows_free_memory=gpu is None or gpu.vendor == "nvidia" or gpu.unified,
            llama_offloads=gpu is not None
            and (gpu.vendor == "apple" if llama is None else llama.gpu_offload),
            repacked=repacked_types(cpu.instruction_sets),
            cpu=cpu,
            gpu=gpu,
        )
