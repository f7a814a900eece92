"""Which engine can run a model, and is quick with it: a pure decision."""

from __future__ import annotations

from ingle.kernels.formats.weight_format import GGML_FORMATS
from ingle.models.errors import ModelError, UnsupportedModel
from ingle.models.families.gguf_config import config_from_gguf
from ingle.models.fit.paged_fit import check_paged_kv_type
from ingle.models.gguf.gguf_header import GGUFHeader, TensorInfo
from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask, Pooling, task_of
from ingle.models.safetensors.model_folder import ModelFolder

from ..base.errors import LoadFailed
from ..base.load_spec import EngineChoice, EngineKind
from ..cuda.kernel_coverage import OLDEST_GPU, why_no_kernels
from .own_engine import CudaAvailability

TENSOR_TYPES = GGML_FORMATS.keys()
"""The types of GGUF tensors that ingle's own engine computes with."""
_FLOAT_TYPES = frozenset(form.name for form in GGML_FORMATS.values() if form.block_elements == 1)
"""Types that are fast on any GPU; the others need kernels, or are dequantised in every step."""
_OTHER = "Let llama.cpp run it."


def choose_engine(
    model: GGUFHeader | ModelFolder,
    wanted: EngineChoice,
    own: CudaAvailability,
    *,
    kv_type: KVType = KVType.F16,
    gpu_layers: int = -1,
    pooling: Pooling | None = None,
) -> EngineKind:
    """ingle's own engine where it was asked for, or where it is quick with the model on a GPU.

    Whether the model fits there is not asked. Only our engine runs folders of safetensors. Raises
    `UnsupportedModel` where the engine does not know the model, `LoadFailed` where what it needs is
    not installed.
    """
    if isinstance(model, ModelFolder):
        return _for_folder(model, wanted, own, kv_type)
    if wanted == "llama.cpp":
        return EngineKind.LLAMA_CPP
    reason = _check_types(model) or _check_task(model, pooling, kv_type)
    if wanted == "cuda":
        if reason is not None:
            raise reason
        _check_installed(own)
        return EngineKind.CUDA
    whole = gpu_layers < 0 or gpu_layers >= model.block_count
    able = own.has_torch and own.gpu_memory > 0 and whole and reason is None
    return EngineKind.CUDA if able and _is_quick(model, own, kv_type) else EngineKind.LLAMA_CPP


def why_not_own(
    model: GGUFHeader | ModelFolder,
    *,
    kv_type: KVType = KVType.F16,
    pooling: Pooling | None = None,
) -> str:
    """Why ingle's own engine cannot run a model, to go on after "because"; "" where it can."""
    if isinstance(model, ModelFolder):
        return ""
    unknown = _unknown_type(model)
    if unknown is not None:
        return f"our engine cannot compute with the tensor type {unknown.type}"
    refused = _check_task(model, pooling, kv_type)
    return "" if refused is None else f"our engine cannot run it ({refused.message.rstrip('.')})"


def task_with(header: GGUFHeader, pooling: Pooling | None) -> ModelTask:
    """What a model is for; a `pooling` makes it embed texts, whatever its file says."""
    return ModelTask.EMBED if pooling not in (None, Pooling.RANK) else task_of(header)


def _is_quick(header: GGUFHeader, own: CudaAvailability, kv_type: KVType) -> bool:
    if all(tensor.type in _FLOAT_TYPES for tensor in header.tensors):
        return True
    known = why_no_kernels(config_from_gguf(header), kv_type) is None
    return known and own.capability >= OLDEST_GPU


def _for_folder(
    folder: ModelFolder, wanted: EngineChoice, own: CudaAvailability, kv_type: KVType
) -> EngineKind:
    if wanted == "llama.cpp":
        raise UnsupportedModel(
            f"{folder.path} holds safetensors, which llama.cpp does not read.",
            hint="Run it with the engine cuda, or get the model as a GGUF file.",
        )
    check_paged_kv_type(folder.path.name, folder.config, kv_type)
    _check_installed(own)
    return EngineKind.CUDA


def _check_installed(own: CudaAvailability) -> None:
    if not own.has_torch:
        raise LoadFailed(
            "ingle's own engine needs PyTorch, which is not installed.",
            hint="Install it with `pip install 'ingle[cuda]'`, or use a GGUF file with llama.cpp.",
        )


def _check_task(header: GGUFHeader, pooling: Pooling | None, kv_type: KVType) -> ModelError | None:
    if task_with(header, pooling) is not ModelTask.GENERATE:
        return UnsupportedModel("ingle's own engine only writes text.", hint=_OTHER)
    try:
        check_paged_kv_type(header.path.name, config_from_gguf(header), kv_type)
    except ModelError as error:
        return error
    return None


def _unknown_type(header: GGUFHeader) -> TensorInfo | None:
    return next((t for t in header.tensors if t.type not in TENSOR_TYPES), None)


def _check_types(header: GGUFHeader) -> ModelError | None:
    unknown = _unknown_type(header)
    if unknown is None:
        return None
    return UnsupportedModel(
        f"{header.path} stores {unknown.name!r} as {unknown.type}, which only llama.cpp computes "
        "with.",
        hint=_OTHER,
    )
