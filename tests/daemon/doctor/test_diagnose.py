"""Diagnostics for recorded and constructed machines, and the commands they suggest."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest

from ingle.backends.hardware.machine import (
    Cpu,
    Disk,
    Gpu,
    GpuProcess,
    HostMemory,
    LlamaBuild,
    Machine,
    Software,
)
from ingle.daemon.client.doctor_types import Diagnostic
from ingle.daemon.doctor.diagnose import CHECKS, diagnose
from ingle.daemon.doctor.system_state import (
    DaemonState,
    DoctorReport,
    FolderState,
    PortState,
    ProcessLimits,
    SystemState,
)
from ingle.daemon.engines.engine_failures import EngineFailure

ReadSituation = Callable[[str], SystemState]
GIB = 2**30
MAC_GPU = Gpu(name="Apple M2", vendor="apple", memory_total=8 * GIB, unified=True)

EXPECTED = {
    "rtx-3060-laptop": ["driver-too-old", "llama-cpu-only"],
    "rtx-4090-game": ["gpu-memory-held", "neighbour-holds-memory"],
    "rtx-4090-laptop": ["cuda-engine-missing", "llama-cpu-only"],
    "h200": ["cuda-engine-missing", "llama-cpu-only"],
    "rx-7900-xtx": ["llama-cpu-only"],
    "arc-b580": ["llama-cpu-only"],
    "rtx-5090": ["cuda-engine-missing", "llama-cpu-only"],
    "two-3090": [],
    "wsl2": ["driver-too-old", "llama-cpu-only", "models-on-network", "wsl-memory"],
    "gtx-1080": ["llama-cpu-only", "gpu-too-old", "models-on-hdd"],
    "m2-air": ["swap-in-use", "little-disk", "few-open-files"],
    "m3-max": ["llama-cpu-only", "wired-limit"],
    "amd-igpu": ["port-taken", "daemon-outdated", "neighbour-holds-memory", "llama-cpu-only"],
    "raspberry-pi-5": ["clock-wrong"],
    "small-container": [
        "folder-not-writable",
        "llama-broken",
        "little-disk",
        "gpu-not-in-container",
        "no-avx2",
        "low-memory-limit",
        "models-on-memory",
    ],
    "windows": ["torch-without-cuda", "llama-cpu-only"],
    "server-without-gpu": [],
}
BROKEN = {"rtx-3060-laptop", "wsl2", "amd-igpu", "raspberry-pi-5", "small-container"}


def find(diagnosis: DoctorReport, code: str) -> Diagnostic:
    return next(finding for finding in diagnosis.findings if finding.code == code)


def test_every_recorded_machine_has_expectations(machines: dict[str, bytes]) -> None:
    assert set(machines) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_findings_on_recorded_machines(read_recorded_state: ReadSituation, name: str) -> None:
    diagnosis = diagnose(read_recorded_state(name))
    assert [finding.code for finding in diagnosis.findings] == EXPECTED[name]
    assert diagnosis.ok != (name in BROKEN)
    assert len(diagnosis.fine) >= len(CHECKS) - len(diagnosis.findings)


@pytest.mark.parametrize("name", EXPECTED)
def test_findings_have_a_remedy(read_recorded_state: ReadSituation, name: str) -> None:
    for finding in diagnose(read_recorded_state(name)).findings:
        assert finding.what.endswith(".")
        if finding.severity != "note":
            assert finding.mend
        assert all(command.strip() == command for command in finding.commands)


@pytest.mark.parametrize(
    ("name", "code", "command"),
    [
        ("rtx-5090", "cuda-engine-missing", "ingle engine install cuda"),
        ("rtx-5090", "llama-cpu-only", "ingle engine install llama.cpp-cuda"),
        ("rtx-3060-laptop", "llama-cpu-only", "ingle engine install llama.cpp-vulkan"),
        ("gtx-1080", "llama-cpu-only", "ingle engine install llama.cpp-vulkan"),
        ("amd-igpu", "llama-cpu-only", "ingle engine install llama.cpp-vulkan"),
        ("m3-max", "llama-cpu-only", "ingle engine install llama.cpp"),
        ("windows", "llama-cpu-only", "ingle engine install llama.cpp-vulkan"),
        ("windows", "torch-without-cuda", "ingle engine install cuda --from FOLDER"),
        ("small-container", "llama-broken", "ingle engine install llama.cpp"),
        ("rtx-3060-laptop", "driver-too-old", "sudo ubuntu-drivers install"),
        ("wsl2", "driver-too-old", "wsl.exe --shutdown"),
        ("m3-max", "wired-limit", "sudo sysctl iogpu.wired_limit_mb=57344"),
        ("amd-igpu", "port-taken", "export INGLE_PORT=4646"),
    ],
)
def test_suggested_commands(
    read_recorded_state: ReadSituation, name: str, code: str, command: str
) -> None:
    assert find(diagnose(read_recorded_state(name)), code).commands[0] == command


def test_gpu_memory_of_own_models_is_not_attributed_to_others(
    read_recorded_state: ReadSituation,
) -> None:
    """Process 9200 is a model of the daemon; the game and Ollama are listed, the model is not."""
    finding = find(diagnose(read_recorded_state("rtx-4090-game")), "gpu-memory-held")
    assert "15.0 GB" in finding.what
    assert "Cyberpunk2077.exe 9.4 GB (pid 7311), ollama 5.4 GB (pid 6200)" in finding.why
    assert "9200" not in finding.why


def plain_state() -> SystemState:
    build = LlamaBuild(version="0.3.36", backends=["CPU"])
    machine = Machine(
        cpu=Cpu(architecture="x86_64", instruction_sets=["AVX2"]),
        memory=HostMemory(total=16 * GIB, available=12 * GIB),
        software=Software(system="Linux", release="Ubuntu 24.04", ingle="0.1.0", llama_cpp=build),
    )
    return SystemState(machine=machine)


def codes(situation: SystemState) -> list[str]:
    return [finding.code for finding in diagnose(situation).findings]


def test_plain_machine_has_no_findings() -> None:
    assert codes(plain_state()) == []


def test_gpu_without_driver_data_needs_a_driver_reinstall() -> None:
    gpus = [Gpu(name="NVIDIA GPU 2684", vendor="nvidia")]
    situation = _with_machine(plain_state(), gpus=gpus)
    finding = find(diagnose(situation), "driver-silent")
    assert finding.commands == ["sudo ubuntu-drivers install"]


def test_a_llama_cpp_that_is_not_installed_is_no_fault() -> None:
    software = Software(system="Linux", release="Ubuntu 24.04")
    assert codes(_with_machine(plain_state(), software=software)) == []
    assert codes(_with_machine(plain_state(), software=software, gpus=[MAC_GPU])) == []


def test_missing_llama_cpp_is_reported_if_the_gpu_needs_another_build() -> None:
    software = Software(system="Linux", release="Ubuntu 24.04", tools=["glslc"])
    gpu = Gpu(name="AMD Radeon RX 7900 XTX", vendor="amd", memory_total=24 * GIB)
    state = _with_machine(plain_state(), software=software, gpus=[gpu])
    finding = find(diagnose(state), "llama-cpu-only")
    assert finding.what == (
        "llama.cpp will be installed without a GPU, and there is an AMD Radeon RX 7900 XTX."
    )
    assert finding.commands == ["ingle engine install llama.cpp-vulkan"]


def test_an_installed_engine_that_cannot_be_loaded_is_removed_first() -> None:
    build = LlamaBuild(version="0.3.36", error="libvulkan.so.1: cannot open shared object file")
    state = _with_machine(plain_state(), software=Software(system="Linux", llama_cpp=build))
    engines = {"llama.cpp": "0.3.36", "llama.cpp-vulkan": "0.3.36", "cuda": "2.13.0"}
    state = msgspec.structs.replace(state, engines=engines)
    assert find(diagnose(state), "llama-broken").commands == [
        "ingle engine remove llama.cpp-vulkan",
        "ingle engine install llama.cpp-vulkan",
    ]


def test_old_driver_is_reported_before_the_own_engine_is_installed() -> None:
    gpu = Gpu(
        name="NVIDIA GeForce RTX 3060",
        vendor="nvidia",
        driver="535.183.01",
        cuda="12.2",
        memory_total=12 * GIB,
        memory_free=12 * GIB,
        compute_capability=(8, 6),
    )
    finding, *others = diagnose(_with_machine(plain_state(), gpus=[gpu])).findings
    assert (finding.code, finding.severity) == ("driver-too-old", "warning")
    assert "needs a driver from 580.65 on; this one runs CUDA up to 12.2." in finding.why
    assert [other.code for other in others] == ["llama-cpu-only"]
    older = msgspec.structs.replace(gpu, compute_capability=(7, 5))
    assert "driver-too-old" not in codes(_with_machine(plain_state(), gpus=[older]))


def test_gpu_hidden_by_visible_devices() -> None:
    gpu = Gpu(name="NVIDIA T4", vendor="nvidia", memory_total=16 * GIB, memory_free=16 * GIB)
    situation = _with_machine(plain_state(), gpus=[gpu])
    hidden = msgspec.structs.replace(situation, visible_gpus="-1")
    assert "gpu-hidden" in codes(hidden)
    assert "gpu-hidden" not in codes(msgspec.structs.replace(situation, visible_gpus="0"))


def test_gpu_memory_held_by_unknown_processes() -> None:
    """On Windows and WSL, memory is in use but the driver does not list the processes."""
    gpu = Gpu(
        name="NVIDIA T4",
        vendor="nvidia",
        memory_total=16 * GIB,
        memory_free=8 * GIB,
        processes=[GpuProcess(pid=4)],
    )
    finding = find(diagnose(_with_machine(plain_state(), gpus=[gpu])), "gpu-memory-held")
    assert "does not report what" in finding.why


@pytest.mark.parametrize(
    ("free", "severity"), [(GIB // 4, "broken"), (4 * GIB, "warning"), (50 * GIB, None)]
)
def test_low_disk_space(free: int, severity: str | None) -> None:
    disk = Disk(folder="/m", total=100 * GIB, free=free, kind="ssd")
    found = diagnose(_with_machine(plain_state(), disk=disk)).findings
    assert [finding.severity for finding in found] == ([severity] if severity else [])


def test_swap_in_use_is_reported_only_when_memory_is_short() -> None:
    """Swapped-out pages are harmless while plenty of memory is free."""
    plenty = HostMemory(total=16 * GIB, available=9 * GIB, swap_total=8 * GIB, swap_used=2 * GIB)
    assert codes(_with_machine(plain_state(), memory=plenty)) == []
    short = msgspec.structs.replace(plenty, available=2 * GIB)
    assert codes(_with_machine(plain_state(), memory=short)) == ["swap-in-use"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"daemon": DaemonState(state="silent", error="It hangs.")}, "daemon-silent"),
        (
            {"daemon": DaemonState(socket="/tmp/ingle-1/a/ingle.sock", socket_moved=True)},
            "home-too-long",
        ),
        ({"port": PortState(number=4645, taken=True)}, "port-taken"),
        ({"limits": ProcessLimits(open_files=64)}, "few-open-files"),
        (
            {"limits": ProcessLimits(locked_memory=8 * 2**20), "wants_locked_memory": True},
            "little-locked-memory",
        ),
        ({"folders": [FolderState(use="runtime", path="/r", private=False)]}, "folder-open"),
        (
            {"folders": [FolderState(use="runtime", path="/r", problem="It is a link.")]},
            "folder-unsafe",
        ),
        ({"config_error": "'kontext' is not a setting of ingle."}, "settings-wrong"),
    ],
)
def test_single_problem_gives_a_single_finding(changes: dict[str, object], expected: str) -> None:
    assert codes(msgspec.structs.replace(plain_state(), **changes)) == [expected]


def test_port_used_by_the_own_daemon_is_no_finding() -> None:
    port = PortState(number=4645, taken=True, ours=True)
    assert codes(msgspec.structs.replace(plain_state(), port=port)) == []


def test_python_under_rosetta() -> None:
    cpu = Cpu(model="Apple M1", architecture="x86_64")
    assert codes(_with_machine(plain_state(), cpu=cpu)) == ["rosetta"]


FAILURE = EngineFailure(
    engine="cuda",
    model="/models/a/q 4.gguf",
    name="smollm2:135m",
    setting="NVIDIA GeForce RTX 4090, driver 580.82.09, kernels 0123",
    reason="A step did not end within 20 seconds.",
    failed_at=1.8e9,
)


def test_each_failure_of_an_engine_is_a_finding() -> None:
    failures = [
        FAILURE,
        msgspec.structs.replace(FAILURE, name="", failed_at=0.0),
        msgspec.structs.replace(FAILURE, setting="NVIDIA GeForce RTX 4090, driver 570, kernels 0"),
        msgspec.structs.replace(FAILURE, setting=", driver , kernels 0", failed_at=0.0),
        msgspec.structs.replace(FAILURE, engine="an engine of tomorrow"),
    ]
    state = msgspec.structs.replace(
        plain_state(), engine_failures=failures, engine_setting=FAILURE.setting
    )
    now, older, before, without_gpu = diagnose(state).findings
    assert (now.code, now.severity) == ("engine-failed", "warning")
    assert now.what == "ingle's own engine failed on smollm2:135m."
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(1.8e9))
    assert now.why == (
        "A step did not end within 20 seconds (NVIDIA GeForce RTX 4090, driver 580.82.09; "
        f"{when}). llama.cpp runs the model instead."
    )
    assert now.commands == ["ingle engine check cuda", "ingle unload smollm2:135m"]
    assert older.what == "ingle's own engine failed on /models/a/q 4.gguf."
    assert older.why.startswith(
        "A step did not end within 20 seconds (NVIDIA GeForce RTX 4090, driver 580.82.09). "
    )
    assert older.commands[1] == "ingle unload '/models/a/q 4.gguf'"
    assert (before.code, before.severity) == ("engine-failed-before", "note")
    assert "so the next load tries the engine again" in before.why
    assert without_gpu.why.startswith("A step did not end within 20 seconds. The GPU, its driver")


def _with_machine(situation: SystemState, **changes: object) -> SystemState:
    machine = msgspec.structs.replace(situation.machine, **changes)
    return msgspec.structs.replace(situation, machine=machine)
