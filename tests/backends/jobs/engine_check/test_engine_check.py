"""The check of an engine, in a process that is confined as a worker is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ingle.backends.base.errors import WorkerDied
from ingle.backends.jobs.engine_check import cuda_steps, engine_check
from ingle.backends.jobs.engine_check.check_step import Step, StepFailed
from ingle.backends.jobs.engine_check.engine_check import run_engine_check
from ingle.backends.jobs.engine_check.messages import EngineCheckSpec, EngineCheckStep
from ingle.kernels.elementwise.activations import Activations


def check(engine: str, folder: Path, import_path: list[str] | None = None) -> list[EngineCheckStep]:
    steps: list[EngineCheckStep] = []
    spec = EngineCheckSpec(engine=engine, kernel_cache=str(folder / "kernels"))
    run_engine_check(spec, steps.append, import_path or [])
    return steps


def test_llama_cpp_is_loaded_and_its_devices_are_listed(tmp_path: Path) -> None:
    steps = check("llama.cpp", tmp_path)
    assert [(step.name, step.passed) for step in steps] == [("library", True), ("devices", True)]
    assert steps[1].detail == "CPU"


def test_missing_library_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    (step,) = check("llama.cpp", tmp_path)
    assert not step.passed
    assert step.remedy == "Run `ingle engine install llama.cpp`."


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.slow
def test_machine_without_a_driver_fails_at_the_driver(tmp_path: Path) -> None:
    steps = check("cuda", tmp_path)
    assert [(step.name, step.passed) for step in steps] == [("packages", True), ("driver", False)]
    assert "libcuda" in steps[1].detail
    assert steps[1].remedy


def test_child_that_dies_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "llama_cpp").mkdir()
    (tmp_path / "llama_cpp/__init__.py").write_text("import os; os.abort()")
    (tmp_path / "llama_cpp/lib").mkdir()
    (tmp_path / "llama_cpp/lib/libllama.so").touch()
    with pytest.raises(WorkerDied, match="checks the engine was killed by SIGABRT"):
        check("llama.cpp", tmp_path, [str(tmp_path)])


@pytest.mark.skipif(sys.platform != "linux", reason="uses Linux features")
def test_failed_step_names_the_denied_calls(tmp_path: Path) -> None:
    (tmp_path / "llama_cpp/lib").mkdir(parents=True)
    (tmp_path / "llama_cpp/__init__.py").write_text("import os; os.chmod('/', 0o755)")
    (tmp_path / "llama_cpp/lib/libllama.so").touch()
    (step,) = check("llama.cpp", tmp_path, [str(tmp_path)])
    assert not step.passed
    assert "Permission denied" in step.detail
    assert "(the confinement denied: chmod)" in step.detail


def test_check_ends_with_the_first_failed_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise StepFailed("it is broken", "Mend it.")

    def steps(_spec: EngineCheckSpec) -> Iterator[Step]:
        yield "first", lambda: "well"
        yield "second", fail
        yield "third", lambda: "never"

    monkeypatch.setattr(engine_check, "check_steps", steps)
    sent: list[Any] = []
    work: Callable[..., object] = engine_check._work  # pyright: ignore[reportPrivateUsage]
    work(None, EngineCheckSpec(engine="x", kernel_cache=str(tmp_path)), sent.append)
    assert [(step.name, step.passed, step.remedy) for step in sent] == [
        ("first", True, ""),
        ("second", False, "Mend it."),
    ]


@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (1.1, False)])
def test_kernel_is_compared_with_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, *, passes: bool
) -> None:
    """On a CPU with PyTorch in the kernel's place, which one time computes something else."""
    from ingle.kernels.elementwise.rms_norm import rms_norm_reference

    class Kernels:
        def __init__(self, *_: object, **__: object) -> None: ...

        def rms_norm(
            self, rows: torch.Tensor, weight: torch.Tensor, epsilon: float, *, dense: bool
        ) -> Activations:
            assert dense
            found = rms_norm_reference(rows, weight, epsilon, torch.float16) * factor
            return Activations(rows.shape[1], found)

    monkeypatch.setattr("ingle.kernels.kernel_operations.KernelOperations", Kernels)
    monkeypatch.setattr("ingle.kernels.launch.gpu_library.GPULibrary.open", Kernels)
    run: Callable[[Path, torch.device], str]
    run = cuda_steps._run_kernel  # pyright: ignore[reportPrivateUsage]
    if passes:
        assert "as PyTorch computes it" in run(tmp_path, torch.device("cpu"))
    else:
        with pytest.raises(StepFailed, match=r"a norm is off by 1\.0e-02"):
            run(tmp_path, torch.device("cpu"))
