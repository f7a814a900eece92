"""The self-check of the sampling kernel, with the kernel as it is and with faults planted in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary
from kernel_harness.interpreted_library import InterpretedTritonLibrary

from ingle.kernels.build.kernel_source import kernel_source
from ingle.kernels.errors import KernelError
from ingle.kernels.kernel_operations import KernelOperations
from ingle.kernels.launch.cuda_driver import Argument, Grid
from ingle.kernels.sampling_check import sampling_failures
from ingle.kernels.self_check import CHECKED_PAGES, CheckedLayer, HeadShape, SelfCheck
from ingle.kernels.token_sampling import MAX_VOCAB

CPU = torch.device("cpu")
FAULTS = {
    "greedy": (
        "token = first_with_key(search, int(place_of(facts.best)), search.peak);",
        "token = int(place_of(facts.best)) + 1;",
    ),
    "temperature": (
        "before += search.memory.board[4 + i];  // what the sum left there",
        "before += 0;",
    ),
    "top_k, top_p and min_p": (
        "if (step == DRAW) target = share_of(mass, share);",
        "if (step == DRAW) target = share_of(mass, share / 2);",
    ),
}


class _FaultyLibrary(CPUKernelLibrary):
    """Launches kernels of another file."""

    def __init__(self, folder: Path, path: Path) -> None:
        super().__init__(folder)
        self._path = str(path)

    def launch(
        self,
        source: str,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        overlap: bool = True,
    ) -> None:
        shared = shared_bytes
        super().launch(self._path, kernel, grid, block, arguments, shared_bytes=shared)


def faulty_library(build_folder: Path, folder: Path, wrong: str) -> CPUKernelLibrary:
    """Return a library with the fault `wrong` in its sampling kernel."""
    right, planted = FAULTS[wrong]
    source = kernel_source("sample.cuh")
    assert source.count(right) == 1
    path = folder / "sample.cuh"
    path.write_text(source.replace(right, planted))
    return _FaultyLibrary(build_folder, path)


@pytest.mark.parametrize("vocab", [300, 32_000])
def test_kernel_passes(build_folder: Path, vocab: int) -> None:
    assert sampling_failures(CPUKernelLibrary(build_folder), CPU, vocab) == []


@pytest.mark.parametrize(
    "wrong",
    [
        "greedy",
        *(pytest.param(each, marks=pytest.mark.slow) for each in FAULTS if each != "greedy"),
    ],
)
@pytest.mark.slow
def test_planted_fault_is_named(build_folder: Path, tmp_path: Path, wrong: str) -> None:
    failures = sampling_failures(faulty_library(build_folder, tmp_path, wrong), CPU, 32_000)
    assert failures == [f"sampling ({wrong}) draws a wrong token"]


def no_failures(*_: object) -> list[str]:
    return []


@pytest.mark.slow
def test_operations_with_a_wrong_sampler_are_refused(
    build_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = faulty_library(build_folder, tmp_path, "greedy")
    compiled = InterpretedTritonLibrary([], num_sms=8)
    operations = KernelOperations(library, compiled, dtype=torch.bfloat16, device=CPU)
    # The other checks have their own tests, and take long in Triton's interpreter.
    monkeypatch.setattr(SelfCheck, "failures", no_failures)
    pages = torch.zeros(CHECKED_PAGES, 32, 2, 64)
    layer = CheckedLayer(HeadShape(4, 2, 64), pages, pages)
    with pytest.raises(KernelError, match=r"sampling \(greedy\) draws a wrong token"):
        operations.check([layer], 300)
    operations.check([layer], MAX_VOCAB + 1)
