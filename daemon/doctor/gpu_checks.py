"""Checks of GPUs and the software that uses them."""

from __future__ import annotations

from collections.abc import Iterator

from ingle.backends.hardware.machine import Gpu, LlamaBuild, Software
from ingle.backends.registry.cuda_availability import OLDEST_CAPABILITY, is_capable

from ..client.doctor_types import Diagnostic
from ..terminal.terminal_output import format_bytes
from .repair_commands import (
    install_cuda_extra,
    install_nvidia_driver,
    rebuild_llama_cpp,
    reinstall_llama_cpp,
    reinstall_torch,
)
from .system_state import SystemState

_DRIVERS = {"11": "450.80", "12": "525.60", "13": "580.65"}
"""The oldest driver for each major CUDA version; it runs builds for any minor version of it."""
_HELD = 0.3
_LEAST_HELD = 2**30
_WORTH_TELLING = 300 * 2**20


def check_driver(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that NVIDIA's driver answers, and is new enough for the installed PyTorch."""
    software, gpus = situation.machine.software, _nvidia(situation)
    if gpus and all(gpu.memory_total is None for gpu in gpus):
        yield _silent_driver(gpus[0], software)
    torch = software.torch
    if torch is None or not torch.cuda:
        return
    for gpu in gpus[:1]:
        if gpu.cuda and _version(gpu.cuda)[0] < _version(torch.cuda)[0]:
            yield _old_driver(gpu, torch.version, torch.cuda, software)


def _silent_driver(gpu: Gpu, software: Software) -> Diagnostic:
    what = f"There is an {gpu.name}, but NVIDIA's driver does not answer."
    if software.container:
        return Diagnostic(
            code="gpu-not-in-container",
            severity="warning",
            what=what,
            why="A container sees a GPU only if it was started with one.",
            mend="Install the NVIDIA Container Toolkit, and start the container with",
            commands=["docker run --gpus all …"],
        )
    return Diagnostic(
        code="driver-silent",
        severity="warning",
        what=what,
        why="It is not installed, or was updated since the machine was last started.",
        mend="If it was updated, restart; else install it, then restart:",
        commands=install_nvidia_driver(software),
    )


def _old_driver(gpu: Gpu, torch: str, cuda: str, software: Software) -> Diagnostic:
    major = str(_version(cuda)[0])
    needed = _DRIVERS.get(major, f"one for CUDA {major}")
    if software.wsl or software.system == "Windows":
        mend = "Install the newest driver in Windows, with the NVIDIA app"
        mend += "; never one inside WSL. Then:" if software.wsl else "."
        commands = ["wsl.exe --shutdown"] if software.wsl else []
    else:
        mend = "Install a newer driver and restart, or let uv choose a PyTorch for the old one:"
        commands = [*install_nvidia_driver(software), reinstall_torch(software)]
    return Diagnostic(
        code="driver-too-old",
        severity="broken",
        what=f"NVIDIA's driver {gpu.driver} is too old for the installed PyTorch.",
        why=f"PyTorch {torch} needs a driver from {needed} on; this one runs CUDA up to {gpu.cuda}."
        " Until then ingle's own engine cannot use the GPU.",
        mend=mend,
        commands=commands,
    )


def check_own_engine(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that the CUDA engine can use the NVIDIA GPU."""
    software = situation.machine.software
    answering = [gpu for gpu in _nvidia(situation) if gpu.compute_capability is not None]
    capable = [gpu for gpu in answering if is_capable(gpu)]
    if answering and not capable:
        major, minor = answering[0].compute_capability or (0, 0)
        needed = ".".join(str(part) for part in OLDEST_CAPABILITY)
        yield Diagnostic(
            code="gpu-too-old",
            severity="note",
            what=f"The {answering[0].name} is too old for ingle's own engine.",
            why=f"That needs compute capability {needed} (RTX 20 and later), and this one has "
            f"{major}.{minor}. A Vulkan build of llama.cpp still runs models on it.",
        )
    elif capable and software.torch is None:
        yield Diagnostic(
            code="cuda-extra-missing",
            severity="warning",
            what=f"ingle's own engine is not installed, and the {capable[0].name} could run it.",
            why="It is the fastest way to run a model that fits into the GPU's memory.",
            mend="Install ingle's extra `cuda` (PyTorch, about 3 GB):",
            commands=[install_cuda_extra(software)],
        )
    elif capable and software.torch is not None and not software.torch.cuda:
        yield Diagnostic(
            code="torch-without-cuda",
            severity="warning",
            what=f"PyTorch {software.torch.version} was built without CUDA.",
            why=f"ingle's own engine would run on the processor, not on the {capable[0].name}.",
            mend="Install the build for this driver:",
            commands=[reinstall_torch(software)],
        )


def check_visibility(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that no variable hides GPUs."""
    visible = situation.visible_gpus
    if visible is not None and visible.strip() in {"", "-1"} and _nvidia(situation):
        yield Diagnostic(
            code="gpu-hidden",
            severity="warning",
            what="CUDA_VISIBLE_DEVICES hides every NVIDIA GPU from ingle.",
            mend="Remove it from the environment, then restart the daemon:",
            commands=["unset CUDA_VISIBLE_DEVICES", "ingle stop"],
        )


def check_llama_cpp(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that llama.cpp can be loaded, and was built for the GPU."""
    software = situation.machine.software
    build = software.llama_cpp
    if build is None or build.error:
        yield _unusable_build(build, software)
        return
    usable = [gpu for gpu in situation.machine.gpus if not build.gpu_offload]
    if not usable:
        return
    # Only a GPU with its own memory decodes faster; one with shared memory only speeds up prefill.
    best = min(usable, key=lambda gpu: (gpu.unified and gpu.vendor != "apple", gpu.vendor))
    shared = best.unified and best.vendor != "apple"
    yield Diagnostic(
        code="llama-cpu-only",
        severity="note" if shared else "warning",
        what=f"llama.cpp was built without a GPU, and there is an {best.name}."
        if best.name[:1] in "AEIOUN"
        else f"llama.cpp was built without a GPU, and there is a {best.name}.",
        why="With one, prompts are processed faster, but answers are not: the memory is the same."
        if shared
        else "It also runs what ingle's own engine does not, and models that only partly fit.",
        mend=_how_to_build(best, software),
        commands=[rebuild_llama_cpp(software, _option(best, software))],
    )


def _unusable_build(build: LlamaBuild | None, software: Software) -> Diagnostic:
    what = "llama.cpp is not installed."
    if build is not None:
        what = f"llama.cpp {build.version} cannot be loaded."
    return Diagnostic(
        code="llama-broken",
        severity="broken",
        what=what,
        why=build.error if build is not None else "",
        mend="Reinstall it:",
        commands=[reinstall_llama_cpp(software)],
    )


def _option(gpu: Gpu, software: Software) -> str:
    if gpu.vendor == "apple":
        return "GGML_METAL"
    # Current CUDA has no compiler for older GPUs, and without the toolkit there is none at all.
    return "GGML_CUDA" if is_capable(gpu) and "nvcc" in software.tools else "GGML_VULKAN"


def _how_to_build(gpu: Gpu, software: Software) -> str:
    option = _option(gpu, software)
    if option == "GGML_METAL":
        return "Build it for Metal (needs Xcode's command line tools):"
    if option == "GGML_CUDA":
        return "Build it for CUDA (takes about ten minutes):"
    toolkit = " With the CUDA toolkit installed, GGML_CUDA is faster." if gpu.cuda else ""
    need = "" if "glslc" in software.tools else " (needs the Vulkan SDK: its headers and glslc)"
    return f"Build it for Vulkan{need}.{toolkit}"


def check_gpu_memory(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that no other program holds a large part of a GPU's memory."""
    for gpu in situation.machine.gpus:
        if gpu.unified or gpu.memory_total is None or gpu.memory_free is None:
            continue
        own = {process.pid for process in gpu.processes} & set(situation.own_pids)
        ours = sum(process.memory or 0 for process in gpu.processes if process.pid in own)
        held = gpu.memory_total - gpu.memory_free - ours
        if held < max(_LEAST_HELD, _HELD * gpu.memory_total):
            continue
        others = [process for process in gpu.processes if process.pid not in own]
        named = [
            f"{process.name or 'a program'} {format_bytes(process.memory or 0)} (pid {process.pid})"
            for process in others
            if (process.memory or 0) >= _WORTH_TELLING
        ]
        free, total = format_bytes(gpu.memory_free), format_bytes(gpu.memory_total)
        yield Diagnostic(
            code="gpu-memory-held",
            severity="warning",
            what=f"Other programs hold {format_bytes(held)} of the {gpu.name}.",
            why=f"{free} of {total} are free. Largest: {', '.join(named[:3])}."
            if named
            else f"{free} of {total} are free; the driver does not report what holds the rest.",
            mend="End them before you load a model that needs the memory.",
        )


def _nvidia(situation: SystemState) -> list[Gpu]:
    return [gpu for gpu in situation.machine.gpus if gpu.vendor == "nvidia"]


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major) if major.isdecimal() else 0, int(minor) if minor.isdecimal() else 0
