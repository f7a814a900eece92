"""What a model is computed with on a device."""

from __future__ import annotations

from dataclasses import dataclass

from ingle.kernels.kernel_library import KernelLibrary
from ingle.kernels.operations import Operations
from ingle.kernels.reference_operations import ReferenceOperations

from .device import ComputeDevice
from .step_graphs import Recorder


@dataclass(frozen=True)
class ComputeBackend:
    """Operations for layers; what records steps, and kernels for drawing, where there are any."""

    operations: Operations
    recorder: Recorder | None = None
    library: KernelLibrary | None = None


def open_compute_backend(where: ComputeDevice) -> ComputeBackend:
    """The best there is for a device."""
    return ComputeBackend(ReferenceOperations(where.dtype))
