"""Determines whether ingle's own engine can run on this machine, without loading it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from ..base.child_process import find_module
from ..hardware.machine import Gpu
from ..hardware.nvml import describe_nvidia_gpus

OLDEST_CAPABILITY: tuple[int, int] = (7, 5)
"""The oldest compute capability that current PyTorch builds support."""


@dataclass(frozen=True)
class CudaAvailability:
    """Whether PyTorch is installed, and the GPU it would use.

    `gpu_memory` is in bytes (0: no GPU), `capability` the major and minor compute capability.
    `gpu_memories` are those of all visible GPUs, if it can use the first.
    """

    has_torch: bool = False
    gpu_memory: int = 0
    capability: tuple[int, int] = (0, 0)
    gpu_memories: tuple[int, ...] = ()

    @classmethod
    def find(cls, import_path: Sequence[str] = ()) -> CudaAvailability:
        """Look for PyTorch, in the folders of `import_path` too, and ask the driver for GPUs."""
        has_torch = find_module("torch", import_path) is not None
        gpus = visible_gpus(describe_nvidia_gpus(str), os.environ.get("CUDA_VISIBLE_DEVICES"))
        gpu = next(iter(gpus), None)
        if gpu is None or gpu.compute_capability is None or not is_capable(gpu):
            return cls(has_torch)
        memories = tuple(each.memory_total or 0 for each in gpus)
        return cls(has_torch, memories[0], gpu.compute_capability, memories)


def is_capable(gpu: Gpu) -> bool:
    """Return whether PyTorch has code for the GPU."""
    return gpu.compute_capability is not None and gpu.compute_capability >= OLDEST_CAPABILITY


def loading_gpu(gpus: Sequence[Gpu], visible: str | None) -> Gpu | None:
    """Return the GPU that models are loaded on: the visible NVIDIA GPU, else any."""
    nvidia = [gpu for gpu in gpus if gpu.vendor == "nvidia"]
    return first_visible(nvidia, visible) if nvidia else next(iter(gpus), None)


def first_visible(gpus: Sequence[Gpu], visible: str | None) -> Gpu | None:
    """Return the first GPU visible under `CUDA_VISIBLE_DEVICES`; None if it hides all."""
    return next(iter(visible_gpus(gpus, visible)), None)


def visible_gpus(gpus: Sequence[Gpu], visible: str | None) -> Sequence[Gpu]:
    """Return the GPUs visible under `CUDA_VISIBLE_DEVICES`, which ends at the first unknown one."""
    if visible is None:
        return gpus
    named = (_named(gpus, wanted.strip()) for wanted in visible.split(","))
    return [gpu for gpu in takewhile(lambda gpu: gpu is not None, named) if gpu is not None]


def _named(gpus: Sequence[Gpu], wanted: str) -> Gpu | None:
    if wanted.isdecimal():
        return gpus[int(wanted)] if int(wanted) < len(gpus) else None
    return next((gpu for gpu in gpus if wanted and gpu.uuid.startswith(wanted)), None)
