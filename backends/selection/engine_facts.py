"""`EngineFacts`: what a machine has for engines, as far as the choice between them asks for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ingle.models.fit.process_overhead import repacked_types

from ..hardware.machine import Gpu
from ..hardware.probe import probe_machine
from ..hardware.read_cpu import read_cpu
from ..hardware.read_machine import read_gpus
from ..registry.cuda_availability import CudaAvailability, first_visible


@dataclass(frozen=True, kw_only=True)
class EngineFacts:
    """What ingle's own engine has here, the GPU that models are loaded on, and llama.cpp's build.

    `tells_free`: somebody knows how much of the GPU's memory is free at any moment. A `unified` GPU
    computes in the machine's memory, of which it may take `gpu_total` bytes.
    """

    own: CudaAvailability
    gpu_name: str = ""
    unified: bool = False
    gpu_total: int = 0
    tells_free: bool = True
    llama_offloads: bool = False
    repacked: frozenset[str] = frozenset()

    @classmethod
    def find(cls, keep: Path | None = None) -> EngineFacts:
        """Ask the machine; blocking. How llama.cpp was built is asked once, and put into `keep`.

        Without a GPU that makes no difference, and is not asked.
        """
        cpu, own = read_cpu(), CudaAvailability.find()
        gpu = _gpu(read_gpus(cpu))
        llama = None if gpu is None else probe_machine(cpu, keep).llama_cpp
        return cls(
            own=own,
            gpu_name="" if gpu is None else gpu.name or f"{gpu.vendor} GPU",
            unified=gpu is not None and gpu.unified,
            gpu_total=(gpu.memory_total or 0) if gpu is not None else 0,
            tells_free=gpu is None or gpu.vendor == "nvidia" or gpu.unified,
            llama_offloads=llama is not None and llama.gpu_offload,
            repacked=repacked_types(cpu.instruction_sets),
        )


def _gpu(gpus: list[Gpu]) -> Gpu | None:
    """The GPU that models are loaded on: of those by NVIDIA what is visible, else any."""
    nvidia = [gpu for gpu in gpus if gpu.vendor == "nvidia"]
    if nvidia:
        return first_visible(nvidia, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return next(iter(gpus), None)
