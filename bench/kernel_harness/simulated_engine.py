"""ingle's own engine on a simulated GPU: the code that runs on a real one, without one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kernel_harness.checked_driver import fake_image
from kernel_harness.simulated_gpu import SimulatedGPU
from kernel_harness.simulated_torch import replaced, simulated_cuda

from ingle.backends.cuda import compute_backend
from ingle.kernels.attention.triton_build import CompilableAttention
from ingle.kernels.build.compiled_kernel import CompiledKernel
from ingle.kernels.build.cubin_finder import CubinFinder
from ingle.kernels.build.cuda_compilers import CubinCache, NvrtcCompiler
from ingle.kernels.build.kernel_source import kernel_source, kernel_sources
from ingle.kernels.launch import gpu_library

Q4_0_SOURCES = (
    "adjust_logits.cuh",
    "attention_combine.cuh",
    "continue_step.cuh",
    "dequantize_rows.cuh",
    "gated_activation.cuh",
    "gated_q4_0.cuh",
    "q4_0.cuh",
    "q4_0_gemm.cuh",
    "quantize_q8.cuh",
    "rms_norm.cuh",
    "rope_append.cuh",
    "rotary_tables.cuh",
    "sample.cuh",
)
"""All that a model needs whose matrices are Q4_0."""


class _ImageCompiler:
    """Compiles with NVRTC, whose cubins are kept in `folder`, to images for the fake driver."""

    def __init__(self, folder: Path) -> None:
        nvrtc = NvrtcCompiler()
        self.version = f"{nvrtc.version} in an image"
        self._cubins = CubinCache(folder, nvrtc)
        self._names = {kernel_source(name): name for name in kernel_sources()}

    def compile(self, source: str, architecture: str) -> bytes:
        name = self._names[source]
        return fake_image(name, self._cubins.cubin(name, architecture))


@dataclass(frozen=True)
class _ImageAttention(CompilableAttention):
    """Compiles with Triton to images for the fake driver."""

    def compile(self, architecture: str) -> CompiledKernel:
        made = super().compile(architecture)
        return replace(made, cubin=fake_image(self.name, made.cubin))


@contextmanager
def simulated_engine(
    gpu: SimulatedGPU, cubins: Path, sources: Sequence[str] | None = None
) -> Generator[None]:
    """Load models on the simulated GPU, with the kernels of `sources`, on this thread.

    Cubins are cached in the folder `cubins`.
    """
    finder = partial(CubinFinder, prebuilt=cubins / "none", compiler=lambda: _ImageCompiler(cubins))
    chosen = list(sources or kernel_sources())
    with ExitStack() as undo:
        undo.enter_context(replaced(gpu_library, "CudaDriver", gpu.open_driver))
        undo.enter_context(replaced(gpu_library, "CubinFinder", finder))
        undo.enter_context(replaced(compute_backend, "CompilableAttention", _ImageAttention))
        undo.enter_context(replaced(compute_backend, "kernel_sources", lambda: chosen))
        undo.enter_context(simulated_cuda(gpu))
        yield
