"""The whole engine on a simulated GPU, without faults and with one at each point of its run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from ctypes import c_int, c_void_p
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gpu.random_model import (
    DELTA_NET,
    SHORT_CONVOLUTION,
    STATE_SPACE,
    all_bf16,
    all_fp8,
    all_nf4,
    hybrid_config,
    llama_config,
    q4_k_m,
)
from kernel_harness.fault_sweep import FaultSweep, Trial
from kernel_harness.host_library import CPUKernelLibrary
from kernel_harness.interpreted_library import InterpretedTritonLibrary
from kernel_harness.simulated_engine import Q4_0_SOURCES, simulated_engine
from kernel_harness.simulated_gpu import Fault, Graph, Kind, SimulatedGPU
from kernel_harness.simulated_torch import CUDA

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.kernels.attention.attention_variant import attention_variants
from ingle.kernels.errors import LaunchFailed
from ingle.kernels.kernel_operations import KernelOperations
from ingle.kernels.launch.gpu_library import GPULibrary
from ingle.models.config.recurrent_config import RecurrentConfig
from ingle.models.kv_type import KVType

from .conftest import (
    PROMPT,
    TINY,
    Answers,
    OpenRunner,
    SmallModel,
    answers,
    assert_right,
    run,
)

ONCE = (1, 2, 701, 801)
LASTING = (700, 719, 214, 46, 999)
REASONS = {
    1: ("INVALID_VALUE", "invalid argument"),
    2: ("OUT_OF_MEMORY", "out of memory", "does not fit into the memory"),
    46: ("DEVICE_UNAVAILABLE", "busy or unavailable"),
    214: ("ECC_UNCORRECTABLE", "uncorrectable ECC"),
    700: ("ILLEGAL_ADDRESS", "illegal memory access"),
    701: ("LAUNCH_OUT_OF_RESOURCES", "too many resources"),
    719: ("LAUNCH_FAILED", "launch failure"),
    801: ("NOT_SUPPORTED", "not supported"),
    999: ("CUDA_ERROR_UNKNOWN", "unknown error"),
}
Swept = tuple[FaultSweep, Answers]
"""Runs with faults, and what the run without one answered."""
ERRORS = {"EngineFault", "OutOfMemory", "LaunchFailed", "AcceleratorError", "OutOfMemoryError"}


def fault_at(kind: Kind, number: int) -> Fault:
    """Return another fault for each point, in turn."""
    if kind == "allocation":
        return Fault(2)
    if kind == "kernel":
        return Fault(hangs=True) if number % 2 else Fault(LASTING[number // 2 % 2])
    if number % 2:
        return Fault(ONCE[number // 2 % len(ONCE)])
    return Fault(LASTING[number // 2 % len(LASTING)], lasts=True)


@pytest.fixture(scope="module")
def simulation(gpu: SimulatedGPU, cache: Path) -> Iterator[None]:
    """Simulate for all tests of the module."""
    with simulated_engine(gpu, cache / "cubins", Q4_0_SOURCES):
        yield


def sweep(gpu: SimulatedGPU, open_runner: OpenRunner, chosen: Callable[[int], bool]) -> Swept:
    """Run once, with a fault at each chosen point in a child."""
    right = Answers()
    found = FaultSweep(
        gpu,
        lambda kind, number: [fault_at(kind, number)] if chosen(number) else [],
        right.texts,
    )
    found.run(lambda: run(open_runner("cuda"), right))
    return found, right


@pytest.fixture(scope="module")
def swept(gpu: SimulatedGPU, simulation: None, open_runner: OpenRunner) -> Swept:
    """Return a run with few faults: every 401st point, so that all kinds of them take part."""
    return sweep(gpu, open_runner, lambda number: number % 401 == 0)


def problem(trial: Trial, expected: list[list[int]]) -> str | None:
    """What is wrong with how a run ended; None if it is as designed."""
    ending = trial.ending
    if ending is None:
        return "it hangs, or died without a word"
    for found, right in zip(ending.streamed, expected, strict=False):
        if found != right[: len(found)]:
            return f"it streamed {found} in place of {right}"
    if ending.waits:
        return None if trial.fault.hangs else "it waits for a kernel that did not hang"
    if not ending.error:
        return None if ending.streamed == expected else "it ended without an error or an answer"
    named = any(reason in ending.message for reason in REASONS[trial.fault.code])
    if ending.error not in ERRORS or not named:
        return f"its error is {ending.error}: {ending.message}\n{ending.trace}"
    return None


def problems(swept: Swept) -> list[str]:
    found, right = swept
    named = ((trial, problem(trial, right.texts)) for trial in found.trials)
    return [
        f"{trial.fault} at {trial.kind} {trial.number} ({trial.name}): {what}"
        for trial, what in named
        if what
    ]


def test_logits_are_those_of_plain_torch(swept: Swept, expected: Answers) -> None:
    assert_right(swept[1], expected)
    assert len({tuple(text) for text in expected.texts}) == 3


def test_every_launch_is_checked_against_its_cubin(gpu: SimulatedGPU, swept: Swept) -> None:
    assert gpu.driver is not None
    launches = gpu.driver.launches
    assert launches.total() == gpu.calls["cuLaunchKernelEx"] > 200
    assert gpu.calls["cuGraphInstantiate"] >= 2
    assert gpu.calls["cuGraphLaunch"] > 5
    for kind in ("gemv", "gemm", "gated", "rms_norm", "rope_append", "attend_split", "sample"):
        assert any(kind in kernel for kernel in launches), kind
    assert any("attend_chunk" in kernel for kernel in launches)


def test_faults_end_runs_with_their_reason_and_without_wrong_tokens(swept: Swept) -> None:
    trials = swept[0].trials
    assert {trial.kind for trial in trials} == {"call", "kernel", "allocation"}
    assert any(trial.ending is not None and trial.ending.waits for trial in trials)
    assert problems(swept) == []


@pytest.mark.slow
def test_fault_at_each_point(gpu: SimulatedGPU, simulation: None, open_runner: OpenRunner) -> None:
    found = sweep(gpu, open_runner, lambda number: True)
    trials = found[0].trials
    assert len(trials) == sum(gpu.points.values()) > 3000
    assert problems(found) == []
    slowest = max(trials, key=lambda trial: trial.seconds)
    print(f"{len(trials)} faults, the longest took {slowest.seconds:.0f} s: {gpu.points}")


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["86", "89", "120"])
def test_launches_fit_other_gpus(
    gpu: SimulatedGPU,
    simulation: None,
    open_runner: OpenRunner,
    expected: Answers,
    monkeypatch: pytest.MonkeyPatch,
    capability: str,
) -> None:
    monkeypatch.setenv("FAKE_DRIVER_CAPABILITY", capability)
    assert_right(answers(open_runner("cuda")), expected)
    assert gpu.driver is not None
    assert gpu.driver.architecture == f"sm_{capability}"
    assert gpu.driver.launches.total() > 200


LARGER = llama_config(layers=2, hidden=256, heads=4, kv_heads=2, intermediate=512, vocabulary=96)


def all_kinds(name: str) -> str:
    """All types with blocks in one model."""
    kinds = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
    return kinds[sum(name.encode()) % len(kinds)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        TINY,
        SmallModel(LARGER, q4_k_m, KVType.F16),
        SmallModel(LARGER, all_nf4, KVType.Q8_0),
        SmallModel(LARGER, all_bf16),
        SmallModel(LARGER, all_fp8),
        SmallModel(LARGER, all_kinds, KVType.Q4_0),
    ],
    ids=["q4_0", "q4_k_m", "nf4", "bf16", "fp8", "mixed"],
)
def test_answers_equal_those_of_the_same_kernels_without_a_driver(
    gpu: SimulatedGPU, cache: Path, open_runner: OpenRunner, model: SmallModel
) -> None:
    """With all kernels compiled and loaded, as on a GPU."""
    library = CPUKernelLibrary(cache / "kernels")
    compiled = InterpretedTritonLibrary(list(attention_variants()))
    library.architecture = compiled.architecture = "sm_90"
    cpu = torch.device("cpu")
    operations = KernelOperations(library, compiled, dtype=torch.bfloat16, device=cpu)
    eager = answers(open_runner("cpu", ComputeBackend(operations, library=library), model))
    with simulated_engine(gpu, cache / "cubins"):
        replayed = answers(open_runner("cuda", model=model))
    assert replayed.texts == eager.texts


def hybrid(layer: RecurrentConfig) -> SmallModel:
    """Return the smallest model with three recurrent layers and one with attention."""
    return SmallModel(
        hybrid_config(replace(TINY.config, layers=TINY.config.layers * 4), layer), TINY.kind
    )


DELTA_NETS, STATE_SPACES = hybrid(DELTA_NET), hybrid(STATE_SPACE)
CONVOLUTIONS = hybrid(replace(SHORT_CONVOLUTION, channels=TINY.config.hidden_size))
SOURCES = (*Q4_0_SOURCES, "causal_convolution.cuh", "gated_delta.cuh", "state_space.cuh")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "kernel"),
    [
        (DELTA_NETS, "gated_delta"),
        (STATE_SPACES, "state_space_128"),
        (CONVOLUTIONS, "convolve_gated"),
    ],
    ids=["DeltaNets", "state spaces", "convolutions"],
)
def test_states_of_recorded_steps_equal_those_of_eager_ones(
    gpu: SimulatedGPU, cache: Path, open_runner: OpenRunner, model: SmallModel, kernel: str
) -> None:
    library = CPUKernelLibrary(cache / "kernels")
    compiled = InterpretedTritonLibrary(list(attention_variants()))
    library.architecture = compiled.architecture = "sm_90"
    cpu = torch.device("cpu")
    operations = KernelOperations(library, compiled, dtype=torch.bfloat16, device=cpu)
    eager = answers(open_runner("cpu", ComputeBackend(operations, library=library), model))
    with simulated_engine(gpu, cache / "cubins", SOURCES):
        before = gpu.calls["cuGraphLaunch"]
        replayed = answers(open_runner("cuda", model=model))
    assert replayed.texts == eager.texts
    assert gpu.calls["cuGraphLaunch"] > before + 5
    assert gpu.driver is not None
    assert gpu.driver.launches[kernel] > 20


def test_launch_with_wrong_arguments_is_refused(simulation: None, cache: Path) -> None:
    library = GPULibrary.open(cache / "simulated")
    grid, block = (2, 1, 1), (128, 1, 1)
    with pytest.raises(LaunchFailed, match=r"Arguments of \[8, 4\] bytes are given"):
        library.launch("quantize_q8.cuh", "quantize_q8", grid, block, [c_void_p(), c_int(3)])


def test_simulated_tensors_behave_like_those_of_a_gpu(gpu: SimulatedGPU, simulation: None) -> None:
    there, here = torch.ones(3, device=CUDA), torch.ones(3)
    assert (there + there).device == CUDA
    assert there.cpu().device.type == here.device.type == "cpu"
    assert here.to(CUDA).data_ptr() != here.data_ptr()
    with pytest.raises(RuntimeError, match="expected all tensors on cuda:0"):
        torch.add(there, here)
    with pytest.raises(TypeError, match="can't convert cuda:0"):
        there.numpy()  # pyright: ignore[reportUnknownMemberType]
    gpu.capturing = Graph()
    try:
        doubled = there * 2
        with pytest.raises(torch.AcceleratorError, match="not permitted when stream is capturing"):
            there.tolist()  # pyright: ignore[reportUnknownMemberType]
        graph = gpu.capturing
    finally:
        gpu.capturing = None
    assert bool(doubled.isnan().all()), "nothing is computed before a replay"
    there.fill_(4)
    gpu.replay(graph)
    assert doubled.tolist() == [8, 8, 8]  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [TINY, DELTA_NETS, STATE_SPACES, CONVOLUTIONS],
    ids=["dense", "DeltaNets", "state spaces", "convolutions"],
)
def test_plain_decoding_step_is_one_replay_and_one_copy(
    gpu: SimulatedGPU, cache: Path, open_runner: OpenRunner, model: SmallModel
) -> None:
    steps: list[Counter[str]] = []
    with simulated_engine(gpu, cache / "cubins", SOURCES):
        engine = Engine(open_runner("cuda", model=model))
        for index in range(2):
            params = SamplingParams(seed=4) if index else SamplingParams(temperature=0)
            prompt = list(PROMPT[: 8 + index])
            engine.add(Sequence("r", index, prompt, params, max_tokens=30, ignore_eos=True))
        while engine.has_work:
            before = gpu.calls.copy()
            engine.step()
            steps.append(gpu.calls - before)
    replay = {"cuGraphLaunch": 1, "copy_": 1, "cuEventRecord": 1, "cuStreamSynchronize": 1}
    assert sum(step == replay for step in steps) >= 24
    # The number of another page is sent.
    page = {"copy_": 2, "cuEventRecord": 2, "cuStreamSynchronize": 2}
    assert any(step == replay | page for step in steps)
