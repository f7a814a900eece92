"""The operations, the graph recorder and the kernel library that a model is computed with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from ingle.kernels.attention.triton_build import CompilableAttention
from ingle.kernels.build.kernel_source import kernel_sources
from ingle.kernels.errors import KernelError
from ingle.kernels.kernel_operations import KernelOperations
from ingle.kernels.launch.gpu_library import GPULibrary
from ingle.kernels.launch.kernel_arguments import DTYPE_NAMES
from ingle.kernels.launch.kernel_library import KernelLibrary
from ingle.kernels.matmul.matmul_tuning import MatmulTuning
from ingle.kernels.operations import Operations
from ingle.models.config.model_config import ModelConfig

from ..base.errors import EngineFault, LoadFailed
from ..base.load_spec import LoadSpec
from .device import ComputeDevice
from .graphs.step_graphs import GraphRecorder, Record
from .kernel_coverage import OLDEST_GPU, attention_kernels, why_no_kernels

_SLOW_EXPERTS = (
    "ingle's kernels do not know experts in this model's format: PyTorch computes them, which "
    "takes far longer."
)


@dataclass(frozen=True)
class ComputeBackend:
    """The operations of layers, and on a GPU what records steps and the kernels for sampling.

    `warning` is why it is slower than the device allows.
    """

    operations: Operations
    record: Record | None = None
    library: KernelLibrary | None = None
    warning: str | None = None


def open_compute_backend(
    where: ComputeDevice,
    config: ModelConfig,
    spec: LoadSpec,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> ComputeBackend:
    """Kernels on a GPU that has them for such a model, else plain torch.

    `on_progress` is called with the fraction of kernels that are compiled.
    Raises `LoadFailed` if there are no kernels and llama.cpp may take over: `EngineFault` if they
    failed.
    """
    if not where.is_gpu:
        return ComputeBackend(Operations(where.dtype))
    reason, kind = _why_without(where, config, spec), LoadFailed
    if reason is None:
        try:
            return _with_kernels(where, config, spec, on_progress)
        except KernelError as error:
            reason, kind = error.message, EngineFault
    message = f"ingle's kernels cannot be used: {reason}"
    if spec.may_fall_back:
        raise kind(message)
    warning = f"{message} The model is computed far slower without them."
    return ComputeBackend(Operations(where.dtype), warning=warning)


def _why_without(where: ComputeDevice, config: ModelConfig, spec: LoadSpec) -> str | None:
    """Why kernels cannot be used, as a sentence; None if they can."""
    if torch.cuda.get_device_capability(where.device) < OLDEST_GPU:
        return f"{where.name} is older than they are."
    if where.dtype not in DTYPE_NAMES:
        return f"they do not compute in {spec.dtype}."
    unknown = why_no_kernels(config, spec.kv_type)
    return None if unknown is None else f"they do not know such a model, since {unknown}."


def _with_kernels(
    where: ComputeDevice,
    config: ModelConfig,
    spec: LoadSpec,
    on_progress: Callable[[float], None],
) -> ComputeBackend:
    folder = Path(spec.kernel_cache or tempfile.mkdtemp(prefix="ingle-kernels-"))
    library = GPULibrary.open(folder, device=where.device.index or 0)
    variants = attention_kernels(config, spec.kv_type, DTYPE_NAMES[where.dtype])
    library.prepare(
        kernel_sources(),
        [CompilableAttention(variant) for variant in variants],
        lambda done, total: on_progress(done / total),
    )
    table = MatmulTuning.read(MatmulTuning.path_for(folder, where.name))
    operations = KernelOperations(
        library, library, dtype=where.dtype, device=where.device, table=table
    )
    return ComputeBackend(operations, GraphRecorder(library.recording), library)


def load_warnings(
    spec: LoadSpec, where: ComputeDevice, backend: ComputeBackend, layers: int
) -> list[str]:
    """A sentence for each setting that has no effect; `layers` is the number of the model's."""
    experts = _SLOW_EXPERTS if backend.operations.has_slow_experts else None
    warnings = [each for each in (where.warning, backend.warning, experts) if each is not None]
    if 0 < spec.gpu_layers < layers:
        warnings.append(
            f"gpu_layers is {spec.gpu_layers}, but ingle's own engine computes all {layers} layers "
            "on one device."
        )
    if spec.mlock:
        warnings.append("The weights are not locked in memory: only llama.cpp does that.")
    if spec.flash_attention == "off":
        warnings.append("ingle's own engine has no other attention than flash attention.")
    return warnings
