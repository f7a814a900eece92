"""The steps of checking ingle's own engine on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...cuda.driver_probe import driver_fault
from ...cuda.kernel_coverage import OLDEST_GPU
from .check_step import Step, StepFailed

if TYPE_CHECKING:
    import torch

_REINSTALL = "Install it again: `ingle engine remove cuda`, then `ingle engine install cuda`."
_REPORT = "Let llama.cpp run models, and report this with the name of your GPU."
_SIZE, _ROWS, _LARGEST_ERROR = 1024, 5, 3e-3


def cuda_steps(cache: Path) -> Iterator[Step]:
    """Yield the steps: packages, driver, GPU, memory, kernels; compiled ones stay in `cache`."""
    yield "packages", _import
    yield "driver", _initialise
    yield "GPU", _find_gpu
    yield "memory", _compute
    yield "kernels", lambda: _run_kernel(cache, torch_device())


def _import() -> str:
    try:
        import torch
    except ImportError as error:
        raise StepFailed(f"{error}", _REINSTALL) from error
    if torch.version.cuda is None:
        raise StepFailed(f"PyTorch {torch.__version__} has no CUDA", _REINSTALL)
    return f"PyTorch {torch.__version__} for CUDA {torch.version.cuda}"


def _initialise() -> str:
    fault = driver_fault()
    if fault is not None:
        raise StepFailed(fault.reason, fault.remedy)
    return "cuInit succeeds"


def _find_gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        raise StepFailed("PyTorch finds no GPU", _REINSTALL)
    name, capability = torch.cuda.get_device_name(0), torch.cuda.get_device_capability(0)
    if capability < OLDEST_GPU:
        raise StepFailed(f"the {name} is older than the kernels", "Let llama.cpp run models.")
    return f"{name}, compute capability {capability[0]}.{capability[1]}"


def _compute() -> str:
    import torch

    numbers = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    found = int(numbers.double().sum().item())
    expected = (1 << 20) * ((1 << 20) - 1) // 2
    if found != expected:
        raise StepFailed(f"a sum is {found}, not {expected}", _REPORT)
    free, total = torch.cuda.mem_get_info()
    return f"{free / 1e9:.1f} of {total / 1e9:.1f} GB are free"


def torch_device() -> torch.device:
    """Return the GPU that models are computed on."""
    import torch

    return torch.device("cuda", 0)


def _run_kernel(cache: Path, device: torch.device) -> str:
    import torch

    from ingle.kernels.elementwise.rms_norm import rms_norm_reference
    from ingle.kernels.errors import KernelError
    from ingle.kernels.kernel_operations import KernelOperations
    from ingle.kernels.launch.gpu_library import GPULibrary

    random = torch.Generator(device).manual_seed(1)
    rows = torch.randn(_ROWS, _SIZE, device=device, generator=random)
    weight = torch.rand(_SIZE, device=device, generator=random) + 0.5
    try:
        library = GPULibrary.open(cache)
        operations = KernelOperations(library, library, dtype=torch.float16, device=device)
        found = operations.rms_norm(rows, weight, 1e-5, dense=True).dense
    except KernelError as error:
        raise StepFailed(error.message, error.hint or _REPORT) from error
    assert found is not None
    expected = rms_norm_reference(rows, weight, 1e-5, torch.float32)
    off = _relative_error(found.float(), expected)
    if not off <= _LARGEST_ERROR:
        raise StepFailed(f"a norm is off by {off:.1e}", _REPORT)
    return "a norm is computed as PyTorch computes it"


def _relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((found - expected).square().sum() / expected.square().sum()).item())
