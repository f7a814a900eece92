"""ingle's own engine, called "cuda" in settings: on a GPU by CUDA kernels, on a CPU by PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ingle.kernels.formats.weight_format import GGML_FORMATS
from ingle.models.config.model_config import ModelConfig
from ingle.models.errors import ModelError, UnsupportedModel
from ingle.models.families.family_registry import FAMILIES
from ingle.models.families.gguf_config import config_from_gguf
from ingle.models.fit.llama_cpp_fit import GPUSplit, LoadParameters, SplitEstimate, total_of
from ingle.models.fit.paged_fit import (
    check_paged_kv_type,
    estimate_own_on_cpu,
    estimate_own_on_gpu,
    nf4_bytes,
    weights_on_cpu,
)
from ingle.models.gguf.gguf_header import GGUFHeader, TensorInfo
from ingle.models.model_task import ModelTask
from ingle.models.parallel.divisible import DevicePart, check_divisible, device_parts
from ingle.models.parallel.layer_stages import stage_parts, stage_sizes
from ingle.models.parallel.model_shard import NF4_BLOCKS, PLAIN_BLOCKS
from ingle.models.safetensors.model_folder import ModelFolder

from ..base.child_process import find_module
from ..base.errors import LoadFailed
from ..base.load_spec import LoadSpec, Quantize
from ..hardware.machine import Software
from ..registry.cuda_availability import CudaAvailability
from ..registry.engine_descriptor import EngineDescriptor, LoadQuery, Progress
from ..registry.model_costs import ModelCosts
from .kernel_coverage import OLDEST_GPU, layers_without_kernels, why_no_kernels

if TYPE_CHECKING:
    from ..engine.local_runner import LocalRunner
    from ..engine.speculation.adaptive_speculator import Drafter
    from ..engine.speculation.step_costs import StepCosts
    from .model_runner import CudaModelRunner

TENSOR_TYPES = GGML_FORMATS.keys()
"""The types of GGUF tensors that it computes with."""
_FLOAT_TYPES = frozenset(form.name for form in GGML_FORMATS.values() if form.block_elements == 1)
"""Types that are fast on any GPU; the others need kernels, or are dequantised in every step."""
_KERNEL_TYPES = frozenset(form.name for form in GGML_FORMATS.values() if form.has_kernels)
_EXPERT_TYPES = frozenset(form.name for form in GGML_FORMATS.values() if form.has_expert_kernel)
"""Types of which kernels multiply by the matrices of picked experts."""
_ALIKE = 0.9
"""Of the largest GPU's memory: with less, equal parts would waste more than they save in time."""
_OTHER = "Let llama.cpp run it."


class CudaEngine(EngineDescriptor):
    """The engine for models that fit wholly on an NVIDIA GPU, and for folders of safetensors."""

    name = "cuda"
    label = "ingle"
    title = "ingle's own engine"
    formats = frozenset({"gguf", "safetensors"})
    fallback = "llama.cpp"
    converts_weights = True
    divides_models = True
    needs_temporary_files = True  # its libraries do, if only to find others
    longest_step = 20.0
    has_heads = True
    imports = ("cuda", "llama.cpp")  # the vocabulary of a GGUF file is read by llama.cpp

    def is_importable(self, import_path: Sequence[str]) -> bool:
        """Whether PyTorch is installed."""
        return find_module("torch", import_path) is not None

    def describe_installation(self, software: Software) -> str:
        """Return PyTorch's version, and what it was built for."""
        torch = software.torch
        if torch is None:
            return "not installed"
        built_for = f"CUDA {torch.cuda}" if torch.cuda else "the processor only"
        return f"PyTorch {torch.version} for {built_for}"

    def why_unavailable(self, machine: CudaAvailability) -> LoadFailed | None:
        """Return how to install PyTorch, if it is missing."""
        if machine.has_torch:
            return None
        return LoadFailed(
            "ingle's own engine needs PyTorch, which is not installed.",
            hint="Install it with `ingle engine install cuda`, or use a GGUF file with llama.cpp.",
        )

    def is_ready(self, machine: CudaAvailability) -> bool:
        """Whether PyTorch is installed and has a GPU."""
        return machine.has_torch and machine.gpu_memory > 0

    def refusal(self, query: LoadQuery) -> ModelError | None:
        """Return which tensor type, task or KV type of the model it has no code for."""
        model = query.model
        if isinstance(model, GGUFHeader):
            unknown = _unknown_type(model)
            if unknown is not None:
                return UnsupportedModel(
                    f"{model.path} stores {unknown.name!r} as {unknown.type}, which only llama.cpp "
                    "computes with.",
                    hint=_OTHER,
                )
            if query.task is not ModelTask.GENERATE:
                return UnsupportedModel("ingle's own engine only writes text.", hint=_OTHER)
        try:
            config = _config_of(model)
            check_paged_kv_type(model.path.name, config, query.kv_type)
            if query.ranks > 1 and not _has_stages(config, query.ranks):
                check_divisible(config, query.ranks)
        except ModelError as error:
            return error
        return None

    def why_not(self, query: LoadQuery) -> str:
        """Return the refusal as a clause, or why llama.cpp is faster; short for a tensor type."""
        if isinstance(query.model, ModelFolder):
            return ""
        unknown = _unknown_type(query.model)
        if unknown is not None:
            return f"{self.title} cannot compute with the tensor type {unknown.type}"
        for tensor in query.model.tensors:
            if "_exps." in tensor.name and tensor.type not in _EXPERT_TYPES:
                return f"{self.title} has no kernels for experts in {tensor.type}"
        refused = super().why_not(query)
        layers = None if refused else layers_without_kernels(config_from_gguf(query.model))
        return refused if layers is None else f"{self.title} has no kernels for {layers}"

    def suits(self, query: LoadQuery, machine: CudaAvailability) -> bool:
        """Whether all of a GGUF file may lie on the GPU, and there are fast kernels for it."""
        header = query.model
        if isinstance(header, ModelFolder) or not self.is_ready(machine):
            return False
        whole = query.gpu_layers < 0 or query.gpu_layers >= header.block_count
        if not whole or self.why_not(query):
            return False
        blocks = {tensor.type for tensor in header.tensors} - _FLOAT_TYPES
        if not blocks:
            return True
        if not blocks <= _KERNEL_TYPES:
            return False
        known = why_no_kernels(config_from_gguf(header), query.kv_type) is None
        return known and machine.capability >= OLDEST_GPU

    def runs_types(
        self, architecture: str, tensor_types: Collection[str], *, mixture: bool, asked: bool
    ) -> bool:
        """Whether it has code for the types and the architecture, and by itself kernels, too."""
        family = FAMILIES.get(architecture)
        if family is None or not set(tensor_types) <= TENSOR_TYPES:
            return False
        fast = not mixture or set(tensor_types) <= _EXPERT_TYPES | _FLOAT_TYPES
        return asked or (fast and family.has_kernels)

    def knows(self, costs: ModelCosts) -> bool:
        """Whether it has code for the architecture."""
        return costs.config is not None

    def estimate(
        self,
        costs: ModelCosts,
        load: LoadParameters,
        split: GPUSplit = GPUSplit(),  # noqa: B008
        *,
        host: int = 0,
        quantize: Quantize = "none",
    ) -> SplitEstimate:
        """Return the bytes on the GPU, or on the CPU, where weights become floats if those fit.

        On the host they are those of all processes.
        """
        config, vocabulary = costs.config, costs.vocabulary
        assert config is not None
        parameters = int(costs.parameters * costs.own_share)
        kept = self._kept_bytes(costs, config, parameters, split, quantize)
        parts = [DevicePart(config, 1.0)]
        if load.stages:
            parts = stage_parts(config, parameters, load.stages)
        elif load.ranks > 1:
            least = NF4_BLOCKS if quantize == "nf4" else PLAIN_BLOCKS
            blocks = costs.blocks.joined(least)
            first, *others = device_parts(config, parameters, load.ranks, blocks)
            # All logits come together on the first device.
            all_logits = replace(first.config, vocab_size=config.vocab_size)
            parts = [first._replace(config=all_logits), *others]
        if split.gpu_layers:
            found = [
                estimate_own_on_gpu(
                    part, load, weights=int(kept * share), vocabulary=vocabulary, whole=config
                )
                for part, share in parts
            ]
        else:
            weights = weights_on_cpu(parameters, kept, host)
            mapped = kept if costs.shape is not None else 0  # safetensors are closed after reading
            found = [
                estimate_own_on_cpu(
                    part,
                    load,
                    weights=int(weights * share),
                    mapped=int(mapped * share),
                    vocabulary=vocabulary,
                    whole=config,
                )
                for part, share in parts
            ]
        first, *others = (each.gpu for each in found)
        on_gpus = tuple(others) if split.gpu_layers else ()
        return SplitEstimate(total_of(each.host for each in found), first, on_gpus)

    def _kept_bytes(
        self,
        costs: ModelCosts,
        config: ModelConfig,
        parameters: int,
        split: GPUSplit,
        quantize: Quantize,
    ) -> int:
        """The bytes of all weights, unless they become floats."""
        if quantize != "none":
            return nf4_bytes(config, parameters, int(costs.stored * costs.own_share))
        in_fp8 = costs.stored_in_fp8 if split.gpu_layers else 0
        return int((in_fp8 or costs.stored) * costs.own_share)

    def stages(
        self, query: LoadQuery, shares: Sequence[float], machine: CudaAvailability
    ) -> tuple[int, ...]:
        """Return the layers of each GPU, where these or the model do not suit equal parts."""
        ranks, memories = query.ranks, machine.gpu_memories[: query.ranks]
        if ranks == 1:
            return ()
        config, known = _config_of(query.model), len(memories) == ranks and all(memories)
        if shares and len(shares) != ranks:
            raise UnsupportedModel(
                f"tensor_split has {len(shares)} shares, and tensor_parallel is {ranks}.",
                hint="Set a share for each GPU, or none.",
            )
        if shares:
            return stage_sizes(config, shares)
        unlike = known and min(memories) < _ALIKE * max(memories) and _has_stages(config, ranks)
        if not unlike and _is_divisible(config, ranks):
            return ()
        return stage_sizes(config, memories if known else [1.0] * ranks)

    def open_runner(self, spec: LoadSpec, on_progress: Progress) -> CudaModelRunner:
        """Load a model that generates."""
        try:
            if spec.tensor_parallel > 1:
                from .parallel.lead_runner import open_divided

                return open_divided(spec, on_progress)
            from .state_model_runner import open_model_runner
        except ImportError as error:
            raise LoadFailed(
                f"{self.title} needs packages that are not installed: {error.name} is missing.",
                hint="Install them with `ingle engine install cuda`, or choose the engine "
                "llama.cpp.",
            ) from error
        return open_model_runner(spec, on_progress)

    def open_drafter(
        self, spec: LoadSpec, runner: LocalRunner, costs: StepCosts, on_progress: Progress
    ) -> Drafter:
        """Load a draft model into the process of the model that it drafts for."""
        from .draft_model import open_drafter
        from .model_runner import CudaModelRunner

        assert isinstance(runner, CudaModelRunner)
        return open_drafter(spec, runner, costs, on_progress)


def _config_of(model: GGUFHeader | ModelFolder) -> ModelConfig:
    return model.config if isinstance(model, ModelFolder) else config_from_gguf(model)


def _is_divisible(config: ModelConfig, ranks: int) -> bool:
    try:
        check_divisible(config, ranks)
    except UnsupportedModel:
        return False
    return True


def _has_stages(config: ModelConfig, ranks: int) -> bool:
    try:
        stage_sizes(config, [1.0] * ranks)
    except UnsupportedModel:
        return False
    return True


def _unknown_type(header: GGUFHeader) -> TensorInfo | None:
    return next((t for t in header.tensors if t.type not in TENSOR_TYPES), None)


ENGINE = CudaEngine()
