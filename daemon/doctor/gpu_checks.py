"""Checks of GPUs and the software that uses them, and the commands that repair it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from ingle.backends.hardware.machine import Gpu, LlamaBuild, Software
from ingle.backends.registry.cuda_availability import OLDEST_CAPABILITY, is_capable

from ..client.doctor_types import Diagnostic
from ..terminal.terminal_output import format_bytes
from .system_state import SystemState

_LLAMA_CPP = "llama-cpp-python"
_PACKAGE_MANAGERS = (
    ("Ubuntu", "sudo ubuntu-drivers install"),
    ("Mint", "sudo ubuntu-drivers install"),
    ("Pop!_OS", "sudo apt install system76-driver-nvidia"),
    ("Debian", "sudo apt install nvidia-driver"),
    ("Fedora", "sudo dnf install akmod-nvidia"),
    ("Arch", "sudo pacman -Syu nvidia-open"),
    ("Manjaro", "sudo mhwd -a pci nonfree 0300"),
    ("openSUSE", "sudo zypper install-new-recommends --repo NVIDIA"),
)
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
        commands=_install_nvidia_driver(software),
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
        commands = [*_install_nvidia_driver(software), _reinstall_torch(software)]
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
            commands=[_install_cuda_extra(software)],
        )
    elif capable and software.torch is not None and not software.torch.cuda:
        yield Diagnostic(
            code="torch-without-cuda",
            severity="warning",
            what=f"PyTorch {software.torch.version} was built without CUDA.",
            why=f"ingle's own engine would run on the processor, not on the {capable[0].name}.",
            mend="Install the build for this driver:",
            commands=[_reinstall_torch(software)],
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
    gpus = situation.machine.gpus
    if build.gpu_offload or not gpus:
        return
    # Only a GPU with its own memory decodes faster; one with shared memory only speeds up prefill.
    best = min(gpus, key=lambda gpu: (gpu.unified and gpu.vendor != "apple", gpu.vendor))
    shared = best.unified and best.vendor != "apple"
    article = "an" if best.name[:1] in "AEIOUN" else "a"
    yield Diagnostic(
        code="llama-cpu-only",
        severity="note" if shared else "warning",
        what=f"llama.cpp was built without a GPU, and there is {article} {best.name}.",
        why="With one, prompts are processed faster, but answers are not: the memory is the same."
        if shared
        else "It also runs what ingle's own engine does not, and models that only partly fit.",
        mend=_how_to_build(best, software),
        commands=[_rebuild_llama_cpp(software, _option(best, software))],
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
        commands=[_reinstall_llama_cpp(software)],
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


def _rebuild_llama_cpp(software: Software, option: str) -> str:
    """Return a command that rebuilds llama.cpp with a CMake option such as "GGML_CUDA", in this
    environment.
    """
    build = software.llama_cpp
    requirement = f"{_LLAMA_CPP}=={build.version}" if build and build.version else _LLAMA_CPP
    install = _reinstall_llama_cpp(software, f"--no-binary {_LLAMA_CPP} {requirement}")
    if software.system == "Windows":
        return f'$env:CMAKE_ARGS="-D{option}=on"; {install}'
    return f'CMAKE_ARGS="-D{option}=on" {install}'


def _reinstall_llama_cpp(software: Software, requirement: str = _LLAMA_CPP) -> str:
    """Return a command that reinstalls llama.cpp."""
    flags = "--no-cache-dir --force-reinstall --no-deps"
    if software.installer == "uv":
        flags = f"--no-cache --reinstall-package {_LLAMA_CPP}"
    return f"{_installer(software)} {flags} {requirement}"


def _install_cuda_extra(software: Software) -> str:
    """Return a command that installs the dependencies of the CUDA engine."""
    origin = f"-e {_quoted(software.checkout + '[cuda]')}" if software.checkout else "'ingle[cuda]'"
    return f"{_installer(software)} {origin}"


def _reinstall_torch(software: Software) -> str:
    """Return a command in which uv selects the PyTorch build for this machine's driver."""
    executable = _quoted(_short(software.executable))
    choice = "--torch-backend=auto --reinstall-package torch 'torch>=2.13,<2.14'"
    return f"uv pip install --python {executable} {choice}"


def _installer(software: Software) -> str:
    """Return the start of a command that installs packages where this ingle runs."""
    executable = _quoted(_short(software.executable or "python3"))
    if software.system == "Windows" and software.installer == "pip":
        return f"& {executable} -m pip install"
    if software.installer == "uv":
        return f"uv pip install --python {executable}"
    return f"{executable} -m pip install"


def _install_nvidia_driver(software: Software) -> list[str]:
    """Return the distribution's commands; none for an unknown distribution."""
    return [command for name, command in _PACKAGE_MANAGERS if name in software.release][:1]


def _short(path: str) -> str:
    """Return the path with the home folder abbreviated as in a shell."""
    home = str(Path.home())
    return "~" + path.removeprefix(home) if path.startswith(home + "/") else path


def _quoted(path: str) -> str:
    """Quote a path if a shell would misread it; a leading `~/` stays unquoted."""
    if path.startswith("~/"):
        return "~/" + shlex.quote(path[2:])
    return shlex.quote(path)
