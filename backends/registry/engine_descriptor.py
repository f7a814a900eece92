"""The base class of engine descriptors: capabilities, memory needs and loading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ingle.models.fit.llama_cpp_fit import GPUSplit, LoadParameters, MemoryEstimate, SplitEstimate
from ingle.models.gguf.gguf_header import GGUFHeader
from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask, Pooling, task_of
from ingle.models.safetensors.model_folder import ModelFolder

from ..base.errors import LoadFailed
from .cuda_availability import CudaAvailability

if TYPE_CHECKING:
    from ingle.models.errors import ModelError

    from ..base.load_spec import LoadSpec, Quantize
    from ..engine.local_runner import LocalRunner
    from ..engine.speculation.adaptive_speculator import Drafter
    from ..engine.speculation.step_costs import StepCosts
    from ..engine.text_encoder import LocalTextEncoder
    from ..hardware.machine import Software
    from .model_costs import ModelCosts

Progress = Callable[[float], None]
"""Called with the fraction of a model that is loaded, 0 to 1."""


@dataclass(frozen=True)
class LoadQuery:
    """A model, and the settings of a load on which the choice of an engine depends."""

    model: GGUFHeader | ModelFolder
    kv_type: KVType = KVType.F16
    gpu_layers: int = -1
    pooling: Pooling | None = None
    ranks: int = 1

    @property
    def file_format(self) -> Literal["gguf", "safetensors"]:
        """The format of the model's files."""
        return "gguf" if isinstance(self.model, GGUFHeader) else "safetensors"

    @property
    def task(self) -> ModelTask:
        """The task of the model; a `pooling` makes it embed texts, whatever its file says."""
        if isinstance(self.model, ModelFolder):
            return ModelTask.GENERATE
        return ModelTask.EMBED if self.pooling not in (None, Pooling.RANK) else task_of(self.model)


class EngineDescriptor(ABC):
    """An engine as the daemon and the worker see it; only its `open_` methods load libraries."""

    name: str
    """The name in settings and requests."""
    label: str
    """The name in the output of `ingle advise --json`."""
    title: str
    """The name in messages."""
    formats: frozenset[str]
    """The file formats that it reads: "gguf", "safetensors"."""
    fallback: str | None = None
    """The engine that runs a model that this one cannot load or has no GPU memory for."""
    uses_gpu: bool = True
    splits_layers: bool = False
    """Whether a part of the layers may be on the GPU."""
    converts_weights: bool = False
    """Whether it can convert weights on load, for example to NF4."""
    divides_models: bool = False
    """Whether several processes can compute one model, each with a part of every matrix."""
    auto_speculation: bool = True
    """Whether the setting "auto" of `speculation` enables it."""
    has_heads: bool = False
    """Whether the heads of models can draft for them."""
    constrains_calls: bool = True
    """Whether a grammar constrains the format of tool calls."""
    needs_temporary_files: bool = False
    longest_step: float | None = None
    """Seconds after which a step is stuck; None derives them from the measured speed."""
    imports: tuple[str, ...] = ()
    """The engines whose packages its worker imports, its own among them."""

    def is_importable(self, import_path: Sequence[str]) -> bool:
        """Whether its packages are in a folder of `import_path` or in ingle's own environment."""
        return True

    def describe_installation(self, software: Software) -> str:
        """Return the installed version, for `ingle doctor`."""
        return "installed"

    def why_unavailable(self, machine: CudaAvailability) -> LoadFailed | None:
        """Return an error that names what is missing and how to install it; None if nothing is."""
        return None

    def is_ready(self, machine: CudaAvailability) -> bool:
        """Whether the setting "auto" may choose it on this machine."""
        return self.why_unavailable(machine) is None

    def refusal(self, query: LoadQuery) -> ModelError | None:
        """Return why it cannot run this model with these settings; None if it can."""
        return None

    def why_not(self, query: LoadQuery) -> str:
        """Return the refusal as a clause of a sentence; "" if it can run the model well."""
        refused = self.refusal(query) if query.file_format in self.formats else None
        if refused is None:
            return ""
        return f"{self.title} cannot run it ({refused.message.rstrip('.')})"

    def suits(self, query: LoadQuery, machine: CudaAvailability) -> bool:
        """Whether the setting "auto" chooses it for this model, unless an earlier one suits."""
        return False

    def runs_types(
        self, architecture: str, tensor_types: Collection[str], *, mixture: bool, asked: bool
    ) -> bool:
        """Whether it may be chosen for a GGUF file with tensors of these types.

        By "auto", unless it was `asked` for. The model is a `mixture` of experts or not.
        """
        return True

    def knows(self, costs: ModelCosts) -> bool:
        """Whether `estimate` can be called for the model."""
        return True

    def estimate(
        self,
        costs: ModelCosts,
        load: LoadParameters,
        split: GPUSplit = GPUSplit(),  # noqa: B008
        *,
        host: int = 0,
        quantize: Quantize = "none",
    ) -> SplitEstimate:
        """Return the bytes of a load with this split; `host` bytes of host memory are free.

        An engine that does not split layers puts all of them on the GPU if the split names any. By
        default the estimate is the size of the file.
        """
        file, nothing = MemoryEstimate(weights=costs.stored), MemoryEstimate()
        return SplitEstimate(nothing, file) if split.gpu_layers else SplitEstimate(file, nothing)

    def stages(
        self, query: LoadQuery, shares: Sequence[float], machine: CudaAvailability
    ) -> tuple[int, ...]:
        """Return how many layers each of several processes computes; none if all compute all.

        `shares` are those of each that are asked for. Raises `UnsupportedModel` if they do not fit.
        """
        return ()

    def drives_gpu(self, spec: LoadSpec) -> bool:
        """Whether its worker needs access to the files of a GPU's driver."""
        return self.uses_gpu and spec.device != "cpu"

    def extra_files(self, spec: LoadSpec) -> Iterable[Path]:
        """Return files that its worker reads and writes besides the model's."""
        return ()

    @abstractmethod
    def open_runner(self, spec: LoadSpec, on_progress: Progress) -> LocalRunner:
        """Load a model that generates; raises `LoadFailed`."""

    def open_encoder(self, spec: LoadSpec, on_progress: Progress) -> LocalTextEncoder:
        """Load a model that embeds or ranks texts; raises `LoadFailed`."""
        raise LoadFailed(f"The engine {self.name} has no embedding models.")

    def open_drafter(
        self, spec: LoadSpec, runner: LocalRunner, costs: StepCosts, on_progress: Progress
    ) -> Drafter:
        """Load the draft model of `spec` for a runner of this engine, or use its model's head.

        Raises `LoadFailed`.
        """
        raise LoadFailed(f"The engine {self.name} has no draft models.")
