"""Checks of GPUs and the engines that use them, and the commands that repair it."""

from __future__ import annotations

from collections.abc import Iterator

from ingle.backends.cuda.kernel_coverage import OLDEST_GPU
from ingle.backends.hardware.machine import Gpu, LlamaBuild, Software, TorchBuild
from ingle.backends.packages.engine_packages import EnginePackages, all_engine_packages
from ingle.backends.registry.cuda_availability import is_capable

from ..client.doctor_types import Diagnostic
from ..engines.engine_offer import CUDA_MAJOR, why_limited, why_useless
from ..terminal.terminal_output import format_bytes
from .system_state import SystemState

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
_DRIVERS = {11: "450.80", 12: "525.60", 13: "580.65"}
"""The oldest driver for each major CUDA version; it runs builds for any minor version of it."""
_HELD = 0.3
_LEAST_HELD = 2**30
_WORTH_TELLING = 300 * 2**20
_BESIDE_OURS = "It also runs what ingle's own engine does not, and models that only partly fit."
_ON_THE_PROCESSOR = "Models are computed on the processor, though the GPU is faster."


def check_driver(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that NVIDIA's driver answers, and is new enough for ingle's own engine."""
    software, gpus = situation.machine.software, _nvidia(situation)
    if gpus and all(gpu.memory_total is None for gpu in gpus):
        yield _silent_driver(gpus[0], software)
    torch = software.torch if software.torch and software.torch.cuda else None
    needed = CUDA_MAJOR if torch is None else _major(torch.cuda)
    for gpu in gpus[:1]:
        # Without a PyTorch for GPUs, the driver only matters to one that the engine could use.
        concerned = torch is not None or (gpu.compute_capability or (0, 0)) >= OLDEST_GPU
        if concerned and gpu.cuda and _major(gpu.cuda) < needed:
            yield _old_driver(gpu, torch, needed, software)


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


def _old_driver(gpu: Gpu, torch: TorchBuild | None, major: int, software: Software) -> Diagnostic:
    needed = _DRIVERS.get(major, f"one for CUDA {major}")
    if software.wsl or software.system == "Windows":
        mend = "Install the newest driver in Windows, with the NVIDIA app"
        mend += "; never one inside WSL. Then:" if software.wsl else "."
        commands = ["wsl.exe --shutdown"] if software.wsl else []
    else:
        mend = "Install a newer driver, then restart:"
        commands = _install_nvidia_driver(software)
    return Diagnostic(
        code="driver-too-old",
        severity="warning" if torch is None else "broken",
        what=f"NVIDIA's driver {gpu.driver} is too old for "
        f"{'the installed PyTorch' if torch else 'the PyTorch of the own engine'}.",
        why=f"{f'PyTorch {torch.version}' if torch else 'That'} needs a driver from {needed} on; "
        f"this one runs CUDA up to {gpu.cuda}. Until then ingle's own engine cannot use the GPU.",
        mend=mend,
        commands=commands,
    )


def check_own_engine(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that the CUDA engine can use the NVIDIA GPU."""
    packages, torch = all_engine_packages()["cuda"], situation.machine.software.torch
    gpu = next((gpu for gpu in _nvidia(situation) if gpu.compute_capability is not None), None)
    if gpu is None or gpu.compute_capability is None:
        return
    if gpu.compute_capability < OLDEST_GPU:
        major, minor = gpu.compute_capability
        needed = ".".join(str(part) for part in OLDEST_GPU)
        yield Diagnostic(
            code="gpu-too-old",
            severity="note",
            what=f"The {gpu.name} is too old for ingle's own engine.",
            why=f"That needs compute capability {needed} (RTX 30 and later), and this one has "
            f"{major}.{minor}. A build of llama.cpp for GPUs still runs models on it.",
        )
    elif why_useless(packages, [gpu]):
        return  # because of the driver, which has its own check
    elif torch is None:
        yield Diagnostic(
            code="cuda-engine-missing",
            severity="warning",
            what=f"ingle's own engine is not installed, and the {gpu.name} could run it.",
            why="It is the fastest way to run a model that fits into the GPU's memory.",
            mend=_how_to_get_torch(packages, situation.machine.software),
            commands=_install(packages, situation),
        )
    elif not torch.cuda:
        yield Diagnostic(
            code="torch-without-cuda",
            severity="warning",
            what=f"PyTorch {torch.version} was built without CUDA.",
            why=f"ingle's own engine would run on the processor, not on the {gpu.name}.",
            mend=_how_to_get_torch(packages, situation.machine.software),
            commands=_install(packages, situation),
        )


def _how_to_get_torch(packages: EnginePackages, software: Software) -> str:
    if software.system == "Windows":
        return (
            "PyPI has PyTorch for Windows without CUDA only. Download the wheels of a build for "
            "CUDA into a folder, then:"
        )
    size = packages.download_bytes
    return f"Install it ({format_bytes(size)} to download):" if size else "Install it:"


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
    """Check that an installed llama.cpp can be loaded, and that it uses the GPU."""
    build, gpus = situation.machine.software.llama_cpp, situation.machine.gpus
    if build is not None and build.error:
        yield _unusable_build(build, situation)
        return
    if not gpus or (build is not None and build.gpu_offload):
        return
    best = min(gpus, key=lambda gpu: (gpu.unified and gpu.vendor != "apple", gpu.vendor))
    packages = _llama_cpp_for(best, situation.machine.software)
    limited = why_limited(packages, [best])
    if build is None and (packages.unasked or limited):
        return  # it is installed before the first answer
    article = "an" if best.name[:1] in "AEIOUN" else "a"
    state = "will be installed" if build is None else "was built"
    yield Diagnostic(
        code="llama-cpu-only",
        severity="note" if limited else "warning",
        what=f"llama.cpp {state} without a GPU, and there is {article} {best.name}.",
        why=limited or (_BESIDE_OURS if is_capable(best) else _ON_THE_PROCESSOR),
        mend=_how_to_build(packages, best, situation.machine.software),
        commands=_install(packages, situation),
    )


def _unusable_build(build: LlamaBuild, situation: SystemState) -> Diagnostic:
    every = all_engine_packages()
    # The preferred ones of the installed packages are those that are loaded.
    name = next(
        (name for name in every if name in situation.engines and every[name].engine == "llama.cpp"),
        "llama.cpp",
    )
    return Diagnostic(
        code="llama-broken",
        severity="broken",
        what=f"llama.cpp {build.version} cannot be loaded.",
        why=build.error,
        mend="Install it anew:",
        commands=_install(every[name], situation),
    )


def _llama_cpp_for(gpu: Gpu, software: Software) -> EnginePackages:
    """Return the build of llama.cpp for the GPU: the fastest that can be compiled here."""
    every = all_engine_packages()
    if gpu.vendor == "apple":
        return every["llama.cpp"]
    cuda = every["llama.cpp-cuda"]
    # Current CUDA has no compiler for older GPUs, and without the toolkit there is none at all.
    usable = is_capable(gpu) and cuda.tool in software.tools
    return cuda if usable else every["llama.cpp-vulkan"]


def _how_to_build(packages: EnginePackages, gpu: Gpu, software: Software) -> str:
    if packages.name == "llama.cpp":
        return "Install its build with Metal (needs Xcode's command line tools):"
    if packages.name == "llama.cpp-cuda":
        return "Install its build for CUDA (compiles for about ten minutes):"
    toolkit = " With the CUDA toolkit, llama.cpp-cuda is faster." if is_capable(gpu) else ""
    missing = packages.tool not in software.tools
    need = " (needs the Vulkan SDK: its headers and glslc)" if missing else ""
    return f"Install its build for Vulkan{need}.{toolkit}"


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


def _major(version: str) -> int:
    major = version.partition(".")[0]
    return int(major) if major.isdecimal() else 0


def _install(packages: EnginePackages, situation: SystemState) -> list[str]:
    """Return commands that install the packages, even if a faulty installation is there."""
    install = f"ingle engine install {packages.name}"
    if packages.name == "cuda" and situation.machine.software.system == "Windows":
        install += " --from FOLDER"
    if packages.name in situation.engines:
        return [f"ingle engine remove {packages.name}", install]
    return [install]


def _install_nvidia_driver(software: Software) -> list[str]:
    """Return the distribution's commands; none for an unknown distribution."""
    return [command for name, command in _PACKAGE_MANAGERS if name in software.release][:1]
