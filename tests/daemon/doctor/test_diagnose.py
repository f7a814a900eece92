"""What is found on machines of many kinds, and that what is said there can be done."""

from __future__ import annotations

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
from ingle.daemon.doctor.diagnose import CHECKS, DoctorReport, diagnose
from ingle.daemon.doctor.system_state import (
    DaemonState,
    FolderState,
    PortState,
    ProcessLimits,
    SystemState,
)

ReadSituation = Callable[[str], SystemState]
GIB = 2**30

EXPECTED = {
    "rtx-3060-laptop": ["driver-too-old", "llama-cpu-only"],
    "rtx-4090-game": ["gpu-memory-held", "neighbour-holds-memory"],
    "rtx-5090": ["cuda-extra-missing", "llama-cpu-only"],
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


def test_every_recorded_machine_is_expected(machines: dict[str, bytes]) -> None:
    assert set(machines) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_machines(situation_of: ReadSituation, name: str) -> None:
    diagnosis = diagnose(situation_of(name))
    assert [finding.code for finding in diagnosis.findings] == EXPECTED[name]
    assert diagnosis.ok != (name in BROKEN)
    assert len(diagnosis.fine) >= len(CHECKS) - len(diagnosis.findings)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_wrong_can_be_mended(situation_of: ReadSituation, name: str) -> None:
    for finding in diagnose(situation_of(name)).findings:
        assert finding.what.endswith(".")
        if finding.severity != "note":
            assert finding.mend
        assert all(command.strip() == command for command in finding.commands)


@pytest.mark.parametrize(
    ("name", "code", "command"),
    [
        (
            "rtx-5090",
            "llama-cpu-only",
            'CMAKE_ARGS="-DGGML_CUDA=on" /home/lin/.venv/bin/python -m pip install '
            "--no-cache-dir --force-reinstall --no-deps --no-binary llama-cpp-python "
            "llama-cpp-python==0.3.36",
        ),
        (
            "rtx-3060-laptop",
            "llama-cpu-only",
            'CMAKE_ARGS="-DGGML_VULKAN=on" uv pip install --python '
            "/home/ana/ingle/.venv/bin/python --no-cache --reinstall-package llama-cpp-python "
            "--no-binary llama-cpp-python llama-cpp-python==0.3.36",
        ),
        (
            "m3-max",
            "llama-cpu-only",
            'CMAKE_ARGS="-DGGML_METAL=on" /opt/homebrew/bin/python3.13 -m pip install '
            "--no-cache-dir --force-reinstall --no-deps --no-binary llama-cpp-python "
            "llama-cpp-python==0.3.36",
        ),
        (
            "windows",
            "llama-cpu-only",
            '$env:CMAKE_ARGS="-DGGML_VULKAN=on"; & '
            r"'C:\Users\Sam\ingle\Scripts\python.exe' -m pip install "
            "--no-cache-dir --force-reinstall --no-deps --no-binary llama-cpp-python "
            "llama-cpp-python==0.3.36",
        ),
        (
            "rtx-5090",
            "cuda-extra-missing",
            "/home/lin/.venv/bin/python -m pip install 'ingle[cuda]'",
        ),
        ("rtx-3060-laptop", "driver-too-old", "sudo ubuntu-drivers install"),
        ("wsl2", "driver-too-old", "wsl.exe --shutdown"),
        ("m3-max", "wired-limit", "sudo sysctl iogpu.wired_limit_mb=57344"),
        ("amd-igpu", "port-taken", "export INGLE_PORT=4646"),
    ],
)
def test_commands(situation_of: ReadSituation, name: str, code: str, command: str) -> None:
    assert find(diagnose(situation_of(name)), code).commands[0] == command


def test_what_ingle_holds_itself_is_not_held_by_others(situation_of: ReadSituation) -> None:
    """9200 is a model of the daemon; the game and Ollama are named, the model is not."""
    finding = find(diagnose(situation_of("rtx-4090-game")), "gpu-memory-held")
    assert "15.0 GB" in finding.what
    assert "Cyberpunk2077.exe 9.4 GB (pid 7311), ollama 5.4 GB (pid 6200)" in finding.why
    assert "9200" not in finding.why


def base() -> SystemState:
    build = LlamaBuild(version="0.3.36", backends=["CPU"])
    machine = Machine(
        cpu=Cpu(architecture="x86_64", instruction_sets=["AVX2"]),
        memory=HostMemory(total=16 * GIB, available=12 * GIB),
        software=Software(system="Linux", release="Ubuntu 24.04", ingle="0.1.0", llama_cpp=build),
    )
    return SystemState(machine=machine)


def codes(situation: SystemState) -> list[str]:
    return [finding.code for finding in diagnose(situation).findings]


def test_nothing_is_wrong_with_a_plain_machine() -> None:
    assert codes(base()) == []


def test_a_gpu_whose_driver_was_updated() -> None:
    gpus = [Gpu(name="NVIDIA GPU 2684", vendor="nvidia")]
    situation = _with_machine(base(), gpus=gpus)
    finding = find(diagnose(situation), "driver-silent")
    assert finding.commands == ["sudo ubuntu-drivers install"]


def test_hidden_gpus() -> None:
    gpu = Gpu(name="NVIDIA T4", vendor="nvidia", memory_total=16 * GIB, memory_free=16 * GIB)
    situation = _with_machine(base(), gpus=[gpu])
    hidden = msgspec.structs.replace(situation, visible_gpus="-1")
    assert "gpu-hidden" in codes(hidden)
    assert "gpu-hidden" not in codes(msgspec.structs.replace(situation, visible_gpus="0"))


def test_a_driver_that_names_nobody() -> None:
    """As under Windows and WSL: memory is gone, but with whom is not told."""
    gpu = Gpu(
        name="NVIDIA T4",
        vendor="nvidia",
        memory_total=16 * GIB,
        memory_free=8 * GIB,
        processes=[GpuProcess(pid=4)],
    )
    finding = find(diagnose(_with_machine(base(), gpus=[gpu])), "gpu-memory-held")
    assert "does not report what" in finding.why


@pytest.mark.parametrize(
    ("free", "severity"), [(GIB // 4, "broken"), (4 * GIB, "warning"), (50 * GIB, None)]
)
def test_room_on_the_disk(free: int, severity: str | None) -> None:
    disk = Disk(folder="/m", total=100 * GIB, free=free, kind="ssd")
    found = diagnose(_with_machine(base(), disk=disk)).findings
    assert [finding.severity for finding in found] == ([severity] if severity else [])


def test_swap_that_nobody_misses_is_fine() -> None:
    """Systems put away what was not used for days, however much memory is free."""
    plenty = HostMemory(total=16 * GIB, available=9 * GIB, swap_total=8 * GIB, swap_used=2 * GIB)
    assert codes(_with_machine(base(), memory=plenty)) == []
    short = msgspec.structs.replace(plenty, available=2 * GIB)
    assert codes(_with_machine(base(), memory=short)) == ["swap-in-use"]


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
def test_one_thing_is_wrong(changes: dict[str, object], expected: str) -> None:
    assert codes(msgspec.structs.replace(base(), **changes)) == [expected]


def test_our_own_daemon_may_have_the_port() -> None:
    port = PortState(number=4645, taken=True, ours=True)
    assert codes(msgspec.structs.replace(base(), port=port)) == []


def test_python_under_rosetta() -> None:
    cpu = Cpu(model="Apple M1", architecture="x86_64")
    assert codes(_with_machine(base(), cpu=cpu)) == ["rosetta"]


def _with_machine(situation: SystemState, **changes: object) -> SystemState:
    machine = msgspec.structs.replace(situation.machine, **changes)
    return msgspec.structs.replace(situation, machine=machine)
