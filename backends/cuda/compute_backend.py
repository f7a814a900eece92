"""What a model is computed with on a device."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import torch

from ingle.kernels.attention.attention_variant import QueryType
from ingle.kernels.attention.triton_build import CompilableAttention
from ingle.kernels.build.kernel_source import kernel_sources
from ingle.kernels.errors import KernelError
from ingle.kernels.kernel_operations import KernelOperations
from ingle.kernels.launch.gpu_library import GPULibrary
from ingle.kernels.launch.kernel_library import KernelLibrary
from ingle.kernels.matmul.matmul_tuning import MatmulTuning
from ingle.kernels.operations import Operations
from ingle.kernels.reference_operations import ReferenceOperations
from ingle.models.config.model_config import ModelConfig

from ..base.errors import LoadFailed
from ..base.load_spec import LoadSpec
from .device import ComputeDevice
from .graphs.graph_recorder import GraphRecorder
from .graphs.step_graphs import Recorder
from .kernel_coverage import OLDEST_GPU, attention_kernels, why_no_kernels

_TYPES: Mapping[torch.dtype, QueryType] = MappingProxyType(
    {torch.float16: "f16", torch.bfloat16: "bf16"}
)


@dataclass(frozen=True)
class ComputeBackend:
    """Operations for layers; what records steps, and kernels for drawing, where there are any.

    `warning` tells why it is a slower one than the device could have.
    """

    operations: Operations
    recorder: Recorder | None = None
    library: KernelLibrary | None = None
    warning: str | None = None


def open_compute_backend(
    where: ComputeDevice, config: ModelConfig, spec: LoadSpec
) -> ComputeBackend:
    """Kernels on a GPU that has them for such a model, else plain torch.

    Raises `LoadFailed` for what llama.cpp does faster than plain torch, where it may.
    """
    if not where.is_gpu:
        return ComputeBackend(ReferenceOperations(where.dtype))
    reason = _why_without(where, config, spec)
    if reason is None:
        try:
            return _with_kernels(where, config, spec)
        except KernelError as error:
            reason = error.message
    message = f"ingle's kernels cannot be used: {reason}"
    if spec.may_fall_back:
        raise LoadFailed(message)
    warning = f"{message} The model is computed far slower without them."
    return ComputeBackend(ReferenceOperations(where.dtype), warning=warning)


def _why_without(where: ComputeDevice, config: ModelConfig, spec: LoadSpec) -> str | None:
    """A sentence, or None."""
    if torch.cuda.get_device_capability(where.device) < OLDEST_GPU:
        return f"{where.name} is older than they are."
    if where.dtype not in _TYPES:
        return f"they do not compute in {spec.dtype}."
    unknown = why_no_kernels(config, spec.kv_type)
    return None if unknown is None else f"they do not know such a model, since {unknown}."


def _with_kernels(where: ComputeDevice, config: ModelConfig, spec: LoadSpec) -> ComputeBackend:
    folder = Path(spec.kernel_cache or tempfile.mkdtemp(prefix="ingle-kernels-"))
    library = GPULibrary.open(folder, device=where.device.index or 0)
    variants = attention_kernels(config, spec.kv_type, _TYPES[where.dtype])
    library.prepare(kernel_sources(), [CompilableAttention(variant) for variant in variants])
    table = MatmulTuning.read(MatmulTuning.path_for(folder, where.name))
    operations = KernelOperations(
        library, library, dtype=where.dtype, device=where.device, table=table
    )
    return ComputeBackend(operations, GraphRecorder(), library)
