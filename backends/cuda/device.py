"""The device a model is computed on, and the type of its activations."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from ..base.errors import LoadFailed
from ..base.load_spec import LoadSpec
from ..hardware.nvml import describe_nvidia_gpus
from ..registry.cuda_availability import first_visible, is_capable
from .driver_probe import DriverFault, driver_fault

_TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class ComputeDevice:
    """A device, its name for users, the dtype of activations, and a warning about the choice."""

    device: torch.device
    name: str
    dtype: torch.dtype
    warning: str | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether it has memory of its own."""
        return self.device.type == "cuda"

    def mark(self) -> torch.cuda.Event | None:
        """An event at this point of the current stream; None without a GPU."""
        if not self.is_gpu:
            return None
        event = torch.cuda.Event()
        event.record()
        return event


def choose_device(spec: LoadSpec, threads: str) -> ComputeDevice:
    """The GPU if there is one, unless the specification says the CPU; `threads` describes the CPU.

    Without a GPU, the CPU is used with a warning, even if a GPU was requested. Raises `LoadFailed`
    for a GPU that NVML sees and CUDA cannot use.
    """
    if spec.device != "cpu" and torch.cuda.is_available():
        usual = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        dtype = _TYPES.get(spec.dtype, usual)
        return ComputeDevice(torch.device("cuda", 0), torch.cuda.get_device_name(0), dtype)
    warning = None
    if spec.device != "cpu":
        _check_driver()
        built = torch.version.cuda is not None
        reason = "PyTorch finds no NVIDIA GPU" if built else "this PyTorch has no CUDA"
        warning = f"ingle's own engine runs on the CPU, far slower than on a GPU: {reason}."
    dtype = _TYPES.get(spec.dtype, torch.float32)
    return ComputeDevice(torch.device("cpu"), f"CPU, {threads}", dtype, warning)


def _check_driver() -> None:
    """Raise `LoadFailed` if there is a GPU, which PyTorch did not find."""
    seen = first_visible(describe_nvidia_gpus(str), os.environ.get("CUDA_VISIBLE_DEVICES"))
    if seen is None or not is_capable(seen):
        return
    fault = driver_fault()
    if fault is None:
        fault = DriverFault(
            f"PyTorch {torch.__version__} was built for CUDA {torch.version.cuda or '(none)'}",
            "Install its engine again: `ingle engine remove cuda`, `ingle engine install cuda`.",
        )
    raise LoadFailed(f"The {seen.name} cannot be used: {fault.reason}.", hint=fault.remedy)
