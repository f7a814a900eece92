"""llama.cpp as an engine: all GGUF files, on any GPU that its build supports, in part too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ingle.models.errors import ModelError
from ingle.models.fit.llama_cpp_fit import (
    GPUSplit,
    LoadParameters,
    SplitEstimate,
    check_kv_type,
    estimate_split,
)
from ingle.models.gguf.gguf_header import GGUFHeader
from ingle.models.model_task import ModelTask

from ..base.load_spec import LoadSpec, Quantize
from ..hardware.llama_cpp_library import library_folder
from ..hardware.machine import Software
from ..registry.cuda_availability import CudaAvailability
from ..registry.engine_descriptor import EngineDescriptor, LoadQuery, Progress
from ..registry.model_costs import ModelCosts

if TYPE_CHECKING:
    from ..engine.local_runner import LocalRunner
    from ..engine.speculation.model_drafter import ModelDrafter
    from ..engine.speculation.step_costs import StepCosts
    from .embedder import LlamaEmbedder
    from .model_runner import LlamaModelRunner

_GPU_LIBRARIES = ("cuda", "hip", "vulkan", "sycl", "opencl", "musa", "cann")


class LlamaCppEngine(EngineDescriptor):
    """The engine for models that no other engine runs."""

    name = "llama.cpp"
    label = "llama.cpp"
    title = "llama.cpp"
    formats = frozenset({"gguf"})
    splits_layers = True
    imports = ("llama.cpp",)

    def is_importable(self, import_path: Sequence[str]) -> bool:
        """Whether llama-cpp-python is installed, and its library built."""
        return library_folder(import_path) is not None

    def describe_installation(self, software: Software) -> str:
        """Return its version, and the devices that it was built for."""
        build = software.llama_cpp
        if build is None:
            return "not installed"
        if build.error:
            return f"{build.version}, which cannot be loaded"
        gpus = [name for name in build.backends if name not in ("CPU", "BLAS", "RPC")]
        return f"{build.version} for {' and '.join(gpus) or 'the processor only'}"

    def suits(self, query: LoadQuery, machine: CudaAvailability) -> bool:
        """Return True."""
        return True

    def refusal(self, query: LoadQuery) -> ModelError | None:
        """Return why llama.cpp has no such KV cache for the model."""
        if isinstance(query.model, GGUFHeader) and query.task is ModelTask.GENERATE:
            try:
                check_kv_type(query.model, query.kv_type)
            except ModelError as error:
                return error
        return None

    def knows(self, costs: ModelCosts) -> bool:
        """Return whether the model is a GGUF file."""
        return costs.shape is not None

    def estimate(
        self,
        costs: ModelCosts,
        load: LoadParameters,
        split: GPUSplit = GPUSplit(),  # noqa: B008
        *,
        host: int = 0,
        quantize: Quantize = "none",
    ) -> SplitEstimate:
        """Return the bytes on both sides of the split."""
        assert costs.shape is not None
        return estimate_split(costs.shape, load, split)

    def drives_gpu(self, spec: LoadSpec) -> bool:
        """Return whether the installed llama.cpp has a GPU library, which any load opens."""
        folder = library_folder(spec.import_path)
        if folder is None:
            return False
        names = [path.name for path in folder.glob("*ggml-*")]
        return any(f"ggml-{library}" in name for name in names for library in _GPU_LIBRARIES)

    def open_runner(self, spec: LoadSpec, on_progress: Progress) -> LlamaModelRunner:
        """Load a model that generates."""
        from .model_runner import LlamaModelRunner

        return LlamaModelRunner(spec, on_progress)

    def open_encoder(self, spec: LoadSpec, on_progress: Progress) -> LlamaEmbedder:
        """Load a model that embeds or ranks texts."""
        from .embedder import LlamaEmbedder

        return LlamaEmbedder(spec, on_progress)

    def open_drafter(
        self, spec: LoadSpec, runner: LocalRunner, costs: StepCosts, on_progress: Progress
    ) -> ModelDrafter:
        """Load a draft model into the process of the model that it drafts for."""
        from .draft_runner import open_drafter
        from .model_runner import LlamaModelRunner

        assert isinstance(runner, LlamaModelRunner)
        return open_drafter(spec, runner, costs, on_progress)


ENGINE = LlamaCppEngine()
