"""Advice on recorded and constructed machines: plausible, within memory, and monotonic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingle.backends.advice.advice_request import (
    NEEDS,
    AdviceRequest,
    Candidate,
    MeasuredSpeed,
    Need,
)
from ingle.backends.advice.advise import Advice, Option, advise, calibrate
from ingle.backends.advice.machine_capacity import MachineCapacity, capacity_of
from ingle.backends.hardware.machine import Cpu, Gpu, HostMemory, LlamaBuild, Machine
from ingle.models.kv_type import KVType

ReadMachine = Callable[[str], Machine]
GIB = 2**30

QUALITY = {
    "rtx-3060-laptop": ("medium:8b", "llama.cpp", "cpu"),
    "rtx-4090-game": ("large:14b", "llama.cpp", "gpu"),
    "rtx-5090": ("large:14b", "llama.cpp", "cpu"),
    "two-3090": ("large:32b", "ingle", "gpu"),
    "gtx-1080": ("medium:4b", "llama.cpp", "cpu"),
    "m2-air": ("tiny:0.1b", "llama.cpp", "gpu"),
    "m3-max": ("large:32b", "llama.cpp", "cpu"),
    "raspberry-pi-5": ("medium:4b", "llama.cpp", "cpu"),
    "server-without-gpu": ("huge:70b", "llama.cpp", "cpu"),
}
TYPICAL = ("rtx-4090-game", "two-3090", "m2-air", "server-without-gpu")


@pytest.mark.parametrize(
    "name",
    [name if name in TYPICAL else pytest.param(name, marks=pytest.mark.slow) for name in QUALITY],
)
def test_advice_for_recorded_machines(
    read_recorded_machine: ReadMachine, models: list[Candidate], name: str
) -> None:
    best = advise(capacity_of(read_recorded_machine(name)), models, AdviceRequest()).best
    assert best is not None
    assert (best.model, best.engine, best.device) == QUALITY[name]
    assert best.speed is not None
    assert best.speed.decode >= 5
    assert 0 < best.speed.decode_full <= best.speed.decode


@pytest.mark.slow
@pytest.mark.parametrize("need", NEEDS)
def test_advice_never_exceeds_memory(
    machines: dict[str, bytes],
    read_recorded_machine: ReadMachine,
    models: list[Candidate],
    need: Need,
) -> None:
    for name in machines:
        capacity = capacity_of(read_recorded_machine(name))
        advice = advise(capacity, models, AdviceRequest(need=need))
        if advice.best is None:
            assert name == "small-container"  # its llama.cpp cannot be loaded
            continue
        assert advice.best.host_bytes <= capacity.budget.host
        assert advice.best.gpu_bytes <= (capacity.budget.gpu or 0)
        assert 1 <= len(advice.alternatives) <= 3
        assert all(option.why_not.endswith(".") for option in advice.alternatives)
        assert advice.best.model not in {option.model for option in advice.alternatives}


def make_capacity(
    host: float, gpu: float = 0.0, *, own: bool = False, bandwidth: float = 500e9
) -> MachineCapacity:
    """A machine with the given free host and GPU memory in GiB."""
    gpus = [
        Gpu(
            name="GPU",
            vendor="nvidia",
            cuda="13.0",
            memory_total=int(gpu * GIB),
            memory_free=int(gpu * GIB),
            compute_capability=(8, 9),
            cores=8000,
            bandwidth=bandwidth,
        )
    ]
    cpu = Cpu(cores=8, compute_threads=8, instruction_sets=["AVX2"], bandwidth=50e9)
    memory = HostMemory(total=int(host * GIB), available=int(host * GIB))
    capacity = capacity_of(Machine(cpu=cpu, memory=memory, gpus=gpus if gpu else []))
    budget = replace(capacity.budget, llama_offloads=bool(gpu))
    return replace(capacity, budget=budget, has_own=own, has_torch=own, llama_works=True)


def test_memory_for_models_does_not_follow_small_changes_of_what_is_free() -> None:
    cpu = Cpu(cores=8, compute_threads=8, bandwidth=50e9)

    def budget(free: float) -> int:
        memory = HostMemory(total=16 * GIB, available=int(free * GIB))
        return capacity_of(Machine(cpu=cpu, memory=memory)).budget.host

    assert budget(11) == budget(13) == budget(15.5) > 10 * GIB
    assert budget(15.5) < 13 * GIB
    assert budget(4) < 4 * GIB  # a large program runs


def test_a_missing_llama_cpp_counts_as_installed_and_a_faulty_one_does_not(
    read_recorded_machine: ReadMachine,
) -> None:
    machine = read_recorded_machine("server-without-gpu")

    def works(build: LlamaBuild | None) -> bool:
        software = msgspec.structs.replace(machine.software, llama_cpp=build)
        return capacity_of(msgspec.structs.replace(machine, software=software)).llama_works

    assert works(None)
    assert not works(LlamaBuild(version="0.3.36", error="libgomp.so.1 is missing"))


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    host=st.floats(0.5, 200),
    gpu=st.sampled_from([0.0, 4.0, 8.0, 12.0, 24.0]),
    more_host=st.floats(0, 100),
    more_gpu=st.floats(0, 40),
    need=st.sampled_from(list(NEEDS)),
)
def test_more_memory_is_never_worse(
    models: list[Candidate], host: float, gpu: float, more_host: float, more_gpu: float, need: Need
) -> None:
    request = AdviceRequest(need=need)
    smaller_machine = advise(make_capacity(host, gpu), models, request).best
    larger_machine = advise(
        make_capacity(host + more_host, gpu + (more_gpu if gpu else 0)), models, request
    ).best
    if smaller_machine is None:
        return
    assert larger_machine is not None
    if smaller_machine.speed and smaller_machine.speed.decode >= 5:
        assert larger_machine.worth >= smaller_machine.worth - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("need", ["quality", "latency", "privacy"])
def test_faster_gpu_is_never_worse(models: list[Candidate], need: Need) -> None:
    worths = [
        _best(advise(make_capacity(64, 24, bandwidth=rate), models, AdviceRequest(need=need))).worth
        for rate in (300e9, 600e9, 1200e9)
    ]
    assert worths == sorted(worths)


@pytest.mark.slow
def test_advice_depends_on_the_need(models: list[Candidate]) -> None:
    capacity = make_capacity(64, 24)
    chosen = {need: _best(advise(capacity, models, AdviceRequest(need=need))) for need in NEEDS}
    assert chosen["quality"].parameters > chosen["latency"].parameters
    assert chosen["memory"].host_bytes + chosen["memory"].gpu_bytes < 8e9
    assert chosen["batch"].batch >= chosen["quality"].batch
    assert chosen["privacy"].model == chosen["quality"].model


def test_advice_depends_on_the_task(models: list[Candidate]) -> None:
    capacity = make_capacity(8)
    assert _best(advise(capacity, models, AdviceRequest(task="code"))).for_code
    assert not _best(advise(capacity, models, AdviceRequest(task="chat"))).for_code
    assert _best(advise(capacity, models, AdviceRequest(task="embed"))).model == "vectors"


def test_requested_context_is_kept(models: list[Candidate]) -> None:
    """When memory is short, the cache is quantized or the model is smaller; the context is never
    reduced."""
    for host in (4, 8, 16, 64):
        best = advise(make_capacity(host), models, AdviceRequest(context=32768)).best
        assert best is None or best.context == 32768
    assert advise(make_capacity(64), models, AdviceRequest(context=100_000)).best is None


def test_kv_cache_is_quantized_when_memory_is_short(models: list[Candidate]) -> None:
    only = [model for model in models if model.name == "medium:8b"]
    request = AdviceRequest(context=32768)
    types = {
        best.kv_type
        for host in range(6, 20)
        if (best := advise(make_capacity(host), only, request).best) is not None
    }
    assert types == {KVType.F16, KVType.Q8_0}


def test_folder_weights_are_quantized_when_they_do_not_fit(
    models: list[Candidate],
) -> None:
    (medium,) = [model for model in models if model.name == "medium:8b"]
    costs = replace(medium.costs, stored=16_400_000_000, shape=None)
    folder = replace(medium, name="folder", costs=costs, plain=True, quantization="BF16")
    quick = make_capacity(64, 24, own=True, bandwidth=1000e9)
    assert _best(advise(quick, [folder], AdviceRequest())).quantize == "none"
    small = _best(advise(make_capacity(64, 12, own=True), [folder], AdviceRequest()))
    assert (small.quantize, small.engine, small.device) == ("nf4", "ingle", "gpu")


def test_model_folder_requires_pytorch(models: list[Candidate]) -> None:
    (medium,) = [model for model in models if model.name == "medium:8b"]
    folder = replace(medium, costs=replace(medium.costs, shape=None))
    assert advise(make_capacity(64), [folder], AdviceRequest()) == Advice(best=None)


def test_alternatives_explain_why_they_are_not_best(models: list[Candidate]) -> None:
    advice = advise(make_capacity(8), models, AdviceRequest())
    reasons = {option.model: option.why_not for option in advice.alternatives}
    larger = next(option for option in advice.alternatives if not option.fits)
    assert "can be had" in reasons[larger.model]
    smaller = next(option for option in advice.alternatives if option.fits)
    assert "of the weights" in reasons[smaller.model] or "made for code" in reasons[smaller.model]


def test_measured_speed_calibrates_predictions(models: list[Candidate]) -> None:
    capacity = make_capacity(32)
    before = _best(advise(capacity, models, AdviceRequest()))
    assert before.speed is not None
    one = next(model for model in models if model.name == "small:1.7b")
    plain = _best(advise(capacity, [one], AdviceRequest(context=4096)))
    assert plain.speed is not None
    measured = MeasuredSpeed(name="small:1.7b", decode=plain.speed.decode * 0.5, on_gpu=False)
    slower = _best(
        advise(calibrate(capacity, models, [measured]), [one], AdviceRequest(context=4096))
    )
    assert slower.speed is not None
    assert slower.speed.decode == pytest.approx(measured.decode)
    assert any("measured here" in line for line in slower.speed.arithmetic)


def test_calibration_takes_the_prompt_length_into_account(
    models: list[Candidate],
) -> None:
    """The measured speed equals the prediction for that many tokens, so nothing is corrected."""
    capacity = make_capacity(32)
    one = next(model for model in models if model.name == "small:1.7b")
    best = _best(advise(capacity, [one], AdviceRequest(context=4096)))
    assert best.speed is not None
    full = MeasuredSpeed(
        name="small:1.7b", decode=best.speed.decode_full, on_gpu=False, tokens=4096
    )
    found = calibrate(capacity, models, [full])
    assert found.cpu is not None
    assert found.cpu.factor == pytest.approx(1.0)


def test_unrelated_measurements_do_not_calibrate(models: list[Candidate]) -> None:
    capacity = make_capacity(32)
    for measured in (
        MeasuredSpeed(name="unknown", decode=5.0, on_gpu=False),
        MeasuredSpeed(name="small:1.7b", decode=0.0, on_gpu=False),
        MeasuredSpeed(name="small:1.7b", decode=5.0, on_gpu=True),
    ):
        assert calibrate(capacity, models, [measured]) == capacity


def test_only_used_kinds_of_memory_are_listed(
    read_recorded_machine: ReadMachine, models: list[Candidate]
) -> None:
    capacity = capacity_of(read_recorded_machine("server-without-gpu"))
    (line,) = _best(advise(capacity, models, AdviceRequest())).memory
    assert line.startswith("memory: 42,500 MB of weights + ")


def test_advice_json_round_trip(
    read_recorded_machine: ReadMachine, models: list[Candidate]
) -> None:
    advice = advise(capacity_of(read_recorded_machine("two-3090")), models, AdviceRequest())
    assert msgspec.json.decode(msgspec.json.encode(advice), type=Advice) == advice


def _best(advice: Advice) -> Option:
    assert advice.best is not None
    return advice.best
